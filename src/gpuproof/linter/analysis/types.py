"""Infers the types of expressions by following them to their origin: tensors, modules, data loaders, clients."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from gpuproof.linter.analysis.call import Call, calls_named, calls_within, local_function, origin_call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.call_targets import Definition, find_definition
from gpuproof.linter.analysis.known_types import (
    DATASET_MAKERS,
    DATASET_METHODS,
    ESTIMATORS,
    MOVERS,
    NO_MODULES,
    TENSOR_FACTORIES,
    TENSOR_METHODS,
    TORCH_MODULES,
    WRAPPERS,
)
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding
from gpuproof.linter.analysis.usage import moves_name

Device = Literal["cpu", "gpu"]
"""`gpu` means moved to some device, which may be a CPU if the script finds no GPU."""


class TypeKind(StrEnum):
    """Types that rules distinguish."""

    TENSOR = "tensor"
    MODULE = "module"
    """A `torch.nn.Module`, possibly wrapped in DDP."""
    OPTIMIZER = "optimizer"
    LOADER = "loader"
    """A `torch.utils.data.DataLoader`."""
    BATCH = "batch"
    """A batch of a loader: a list, tuple or mapping of tensors."""
    TF_DATASET = "tf_dataset"
    KERAS_MODEL = "keras_model"
    STRATEGY = "strategy"
    """A `tf.distribute` strategy."""
    ESTIMATOR = "estimator"
    SDK_MODEL = "sdk_model"
    """A model of the SageMaker SDK that can be deployed."""
    PREDICTOR = "predictor"
    CLIENT = "client"
    """A boto3 client or resource."""


@dataclass(frozen=True)
class InferredType:
    """The inferred type of an expression.

    Args:
        kind: the type; None if unknown.
        device: for tensors, batches and modules, the device that they are certainly on; None if unknown.
    """

    kind: TypeKind | None = None
    device: Device | None = None


UNKNOWN_TYPE = InferredType()
MAX_DEPTH = 12
MAX_STEPS = 500
"""Expressions that are followed to find the type of one; where they branch, they grow exponentially with the depth."""


def type_of(module: Module, node: ast.expr | None, depth: int = 0) -> InferredType:
    """The type of an expression in a module; `UNKNOWN_TYPE` if unknown."""
    if node is None or depth > MAX_DEPTH:
        return UNKNOWN_TYPE
    progress = module.derived(_Progress)
    if depth:
        progress.steps_left -= 1
        return _infer(module, node, depth) if progress.steps_left > 0 else UNKNOWN_TYPE
    if node not in progress.results:
        progress.steps_left = MAX_STEPS
        progress.results[node] = _infer(module, node, depth)
    return progress.results[node]


class _Progress:
    """The inferred types of a module, and how many expressions may still be looked at for the current one."""

    def __init__(self, _: Module) -> None:
        self.results: dict[ast.expr, InferredType] = {}
        self.steps_left = MAX_STEPS


def _infer(module: Module, node: ast.expr, depth: int) -> InferredType:
    match node:
        case ast.Name():
            return _of_name(module, node, depth)
        case ast.Call():
            return _of_call(module, node, depth)
        case ast.Attribute(value=ast.Name(id="self")):
            return _of_own_attribute(module, node, depth)
        case ast.Subscript(value=value):
            inner = type_of(module, value, depth + 1)
            return (
                replace(inner, kind=TypeKind.TENSOR)
                if inner.kind in (TypeKind.BATCH, TypeKind.TENSOR)
                else UNKNOWN_TYPE
            )
        case ast.Attribute(value=value, attr="module"):
            return type_of(module, value, depth + 1)
        case ast.BinOp(left=left, right=right):
            one, other = type_of(module, left, depth + 1), type_of(module, right, depth + 1)
            return (
                one
                if one.kind is TypeKind.TENSOR
                else other
                if other.kind is TypeKind.TENSOR
                else UNKNOWN_TYPE
            )
        case ast.IfExp(body=body, orelse=orelse):
            return _common_type([type_of(module, body, depth + 1), type_of(module, orelse, depth + 1)])
        case _:
            return UNKNOWN_TYPE


def _of_name(module: Module, node: ast.Name, depth: int) -> InferredType:
    bindings = module.reaching(node)
    if not bindings:
        return UNKNOWN_TYPE
    found = _common_type([_of_binding(module, binding, depth) for binding in bindings])
    if found.kind is TypeKind.MODULE and found.device == "cpu" and _moved_in_place(module, node):
        return replace(found, device="gpu")
    return found


def _common_type(options: list[InferredType]) -> InferredType:
    """The type that all options have in common."""
    first = options[0]
    if any(option.kind is not first.kind for option in options):
        return UNKNOWN_TYPE
    return first if all(option.device == first.device for option in options) else InferredType(first.kind)


def _of_binding(module: Module, binding: Binding, depth: int) -> InferredType:
    match binding.kind:
        case "assign" | "with":
            return type_of(module, binding.value, depth + 1)
        case "loop":
            return _of_loop(module, binding, depth)
        case "unpack" if isinstance(binding.value, (ast.Tuple, ast.List)):
            items = binding.value.elts
            index = binding.index if binding.index is not None else len(items)
            # `x, y = x.to(device), y.to(device)`
            return type_of(module, items[index], depth + 1) if index < len(items) else UNKNOWN_TYPE
        case "unpack" if binding.value is not None:
            inner = type_of(module, binding.value, depth + 1)
            if inner.kind is TypeKind.BATCH:
                return replace(inner, kind=TypeKind.TENSOR)
            return _of_returned_item(module, binding, depth)
        case "parameter":
            return _of_parameter(module, binding, depth)
        case _:
            return UNKNOWN_TYPE


def _of_returned_item(module: Module, binding: Binding, depth: int) -> InferredType:
    """The type of one of the values that a function of the project returns together."""
    if binding.index is None or not isinstance(binding.value, ast.Call):
        return UNKNOWN_TYPE
    made = find_definition(module, binding.value.func)
    if made is None or isinstance(made.node, ast.ClassDef):
        return UNKNOWN_TYPE
    items: list[ast.expr] = []
    for value in _returned(made):
        if not isinstance(value, ast.Tuple) or binding.index >= len(value.elts):
            return UNKNOWN_TYPE
        items.append(value.elts[binding.index])
    return _common_type([type_of(made.module, item, depth + 3) for item in items]) if items else UNKNOWN_TYPE


def _returned(function: Definition) -> list[ast.expr]:
    """The values that a function returns."""
    return [
        child.value
        for child in ast.walk(function.node)
        if isinstance(child, ast.Return)
        and child.value is not None
        and function.module.function_of(child) is function.node
    ]


def _of_loop(module: Module, binding: Binding, depth: int) -> InferredType:
    iterated = _iterated(module, binding.value)
    inner = type_of(module, iterated.value, depth + 1)
    if inner.kind is TypeKind.LOADER:
        whole = binding.index is None and not iterated.counted
        # `for i, batch in enumerate(loader)`, `for i, (x, y) in ...`: the counter is not a tensor.
        if iterated.counted and binding.index == 0:
            return UNKNOWN_TYPE
        return InferredType(
            TypeKind.BATCH
            if whole or (iterated.counted and _is_direct(module, binding))
            else TypeKind.TENSOR,
            "cpu",
        )
    return UNKNOWN_TYPE


@dataclass(frozen=True)
class _Iterated:
    value: ast.expr | None
    counted: bool = False


def _iterated(module: Module, node: ast.expr | None) -> _Iterated:
    """The iterated expression in `enumerate(tqdm(loader))`."""
    counted = False
    for _ in range(4):
        made = module.origin(node)
        if not isinstance(made, ast.Call) or not made.args:
            break
        name = (
            module.qualified(made.func) or (made.func.id if isinstance(made.func, ast.Name) else "")
        ).split(".")[-1]
        if name not in ("enumerate", "tqdm", "trange", "iter", "track"):
            break
        counted = counted or name == "enumerate"
        node = made.args[0]
    return _Iterated(node, counted)


def _is_direct(module: Module, binding: Binding) -> bool:
    """Whether a name is an item of the loop's own tuple: `batch` of `for i, batch in`, not `x` of `for i, (x, y) in`."""
    parent = module.parent(binding.node)
    return isinstance(parent, (ast.Tuple, ast.List)) and isinstance(
        module.parent(parent), (ast.For, ast.AsyncFor)
    )


def _of_parameter(module: Module, binding: Binding, depth: int) -> InferredType:
    """The type of the argument that every call in the file passes for a parameter, by position or keyword."""
    function = binding.scope
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or depth > 4:
        return UNKNOWN_TYPE
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    calls = [call for call in calls_named(module, function.name) if local_function(call) is function]
    if not calls and binding.name == _served(function, names):
        return _of_model_fn(module, depth)
    if not calls or binding.name not in names:
        return UNKNOWN_TYPE
    given = [call.expression(binding.name, names.index(binding.name)) for call in calls]
    if any(argument is None for argument in given):
        return UNKNOWN_TYPE
    return _common_type([type_of(module, argument, depth + 3) for argument in given])


def _served(function: ast.FunctionDef | ast.AsyncFunctionDef, names: list[str]) -> str | None:
    """The parameter of a handler's function that gets what `model_fn` returns."""
    place = {"predict_fn": 1, "transform_fn": 0}.get(function.name)
    return names[place] if place is not None and place < len(names) else None


def _of_model_fn(module: Module, depth: int) -> InferredType:
    load = module.functions.get("model_fn")
    returned = _returned(Definition(module, load)) if load is not None else []
    return (
        _common_type([type_of(module, value, depth + 3) for value in returned]) if returned else UNKNOWN_TYPE
    )


def _of_own_attribute(module: Module, node: ast.Attribute, depth: int) -> InferredType:
    owner = module.enclosing(node, ast.ClassDef)
    if owner is None:
        return UNKNOWN_TYPE
    stores = [
        other
        for other in module.nodes(ast.Attribute)
        if other.attr == node.attr
        and isinstance(other.ctx, ast.Store)
        and module.tree.is_within(other, owner)
    ]
    statements = [module.parent(store) for store in stores]
    values = [
        statement.value
        for statement in statements
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1
    ]
    if not values or len(values) != len(stores):
        return UNKNOWN_TYPE
    found = _common_type([type_of(module, value, depth + 2) for value in values])
    # A submodule moves with the module around it.
    return InferredType(found.kind) if found.kind is TypeKind.MODULE else found


def _of_call(module: Module, node: ast.Call, depth: int) -> InferredType:
    call = origin_call(module, node) or Call(node, module)
    if call.name is not None:
        named = _of_named(call, depth)
        if named.kind is not None:
            return named
    if isinstance(node.func, ast.Name):
        return _of_own(module, node, depth)
    if call.receiver is not None:
        return _of_method(module, call, type_of(module, call.receiver, depth + 1))
    return UNKNOWN_TYPE


def _of_named(call: Call, depth: int) -> InferredType:
    name, module = call.name or "", call.module
    last = name.rpartition(".")[2]
    if name.startswith("torch.optim.") and last[:1].isupper() and "lr_scheduler" not in name:
        return InferredType(TypeKind.OPTIMIZER)
    if name.endswith("data.DataLoader") or name == "DataLoader":
        return InferredType(TypeKind.LOADER)
    if name in TENSOR_FACTORIES:
        return InferredType(TypeKind.TENSOR, _device_of(call))
    if name.endswith(WRAPPERS) and call.node.args:
        return type_of(module, call.node.args[0], depth + 1)
    if name.startswith(TORCH_MODULES) and not name.startswith(NO_MODULES) and name != "torch.nn.":
        return InferredType(TypeKind.MODULE, "cpu")
    if last == "from_pretrained" and "transformers." in name and ("Model" in name or "For" in name):
        moved = not call.argument("device_map").is_absent
        return InferredType(TypeKind.MODULE, None if moved else "cpu")
    if name.startswith("tensorflow.data.") and last.startswith(DATASET_MAKERS):
        return InferredType(TypeKind.TF_DATASET)
    if last in (
        "image_dataset_from_directory",
        "text_dataset_from_directory",
        "timeseries_dataset_from_array",
    ):
        return InferredType(TypeKind.TF_DATASET)
    if name.startswith("tensorflow.distribute.") and last.endswith("Strategy"):
        return InferredType(TypeKind.STRATEGY)
    if _is_keras(name) and (
        last in ("Sequential", "Model", "load_model", "clone_model") or ".applications." in name
    ):
        return InferredType(TypeKind.KERAS_MODEL)
    if name.startswith("sagemaker."):
        return _of_sdk(last)
    if name in ("boto3.client", "boto3.resource"):
        return InferredType(TypeKind.CLIENT)
    return UNKNOWN_TYPE


def _of_sdk(last: str) -> InferredType:
    if last in ESTIMATORS:
        return InferredType(TypeKind.ESTIMATOR)
    if last.endswith("Predictor") and last[:1].isupper():
        return InferredType(TypeKind.PREDICTOR)
    if last.endswith("Model") and last[:1].isupper():
        return InferredType(TypeKind.SDK_MODEL)
    return UNKNOWN_TYPE


def _of_own(module: Module, node: ast.Call, depth: int) -> InferredType:
    """A class or function of the project."""
    made = find_definition(module, node.func)
    if made is None:
        return UNKNOWN_TYPE
    module, owner = made
    if isinstance(owner, ast.ClassDef):
        bases = list(module.bases(owner))
        if any(
            base in ("torch.nn.Module", "torch.jit.ScriptModule") or base.startswith("torch.nn.")
            for base in bases
        ):
            return InferredType(TypeKind.MODULE, None if _moves_inside(module, owner) else "cpu")
        if any(_is_keras(base) and base.endswith((".Model", ".Sequential")) for base in bases):
            return InferredType(TypeKind.KERAS_MODEL)
        return UNKNOWN_TYPE
    returns = _returned(made)
    return (
        _common_type([type_of(module, return_, depth + 3) for return_ in returns])
        if returns
        else UNKNOWN_TYPE
    )


def _moves_inside(module: Module, owner: ast.ClassDef) -> bool:
    """Whether a model may move itself or its input in its methods, so that it may not be on the CPU."""
    calls = calls_within(calls_named(module, "to", "cuda", "device"), owner)
    return bool(calls) or any(
        node.arg in ("device", "device_map") and module.tree.is_within(node, owner)
        for node in module.nodes(ast.keyword)
    )


def _of_method(module: Module, call: Call, receiver: InferredType) -> InferredType:
    match receiver.kind:
        case TypeKind.TENSOR | TypeKind.MODULE | TypeKind.BATCH if call.method in MOVERS:
            return replace(receiver, device=_moved_to(module, call, receiver))
        case TypeKind.TENSOR | TypeKind.MODULE if call.method == "cpu":
            return replace(receiver, device="cpu")
        case TypeKind.TENSOR if call.method in TENSOR_METHODS:
            return receiver
        case TypeKind.MODULE if call.method in (
            "train",
            "eval",
            "float",
            "half",
            "double",
            "bfloat16",
            "requires_grad_",
        ):
            return receiver
        case TypeKind.TF_DATASET if call.method in DATASET_METHODS:
            return receiver
        case TypeKind.ESTIMATOR | TypeKind.SDK_MODEL if call.method == "deploy":
            return InferredType(TypeKind.PREDICTOR)
        case TypeKind.ESTIMATOR if call.method == "create_model":
            return InferredType(TypeKind.SDK_MODEL)
        case _:
            return UNKNOWN_TYPE


def _moved_to(module: Module, call: Call, receiver: InferredType) -> Device | None:
    if call.method == "cuda":
        return "gpu"
    target = call.expression("device", 0)
    if target is None:
        return receiver.device
    if (module.qualified(target) or "").startswith("torch.") and (
        module.qualified(target) or ""
    ) != "torch.device":
        # `.to(torch.float16)` changes the dtype, not the device.
        return receiver.device
    text = evaluate(module, target).text
    return "cpu" if text == "cpu" else "gpu"


def _device_of(call: Call) -> Device | None:
    device = call.argument("device")
    if device.is_absent:
        return "cpu"
    return "cpu" if device.text == "cpu" else None if device.is_unknown and call.is_open else "gpu"


def _moved_in_place(module: Module, name: ast.Name) -> bool:
    """Whether `model.to(device)` or `model.cuda()` is called on the variable anywhere: modules move in place."""
    moves = [call for call in calls_named(module, "to", "cuda") if isinstance(call.receiver, ast.Name)]
    return moves_name(module, name, moves)


def _is_keras(name: str) -> bool:
    return name.startswith(("keras.", "tensorflow.keras.", "tf_keras.", "tensorflow.python.keras."))
