"""Infers the types of expressions by following them to their origin."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpuproof.linter.analysis.call import Call, call_of, origin_call
from gpuproof.linter.analysis.flow.call_sites import known_call_sites
from gpuproof.linter.analysis.flow.call_targets import Definition, returned_values
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.flow.model import CallSite, Sources
from gpuproof.linter.analysis.flow.references import is_stored
from gpuproof.linter.analysis.flow.sources import (
    HANDLERS,
    attribute_sources,
    class_of,
    item_sources,
    passed,
    sources,
    targets,
)
from gpuproof.linter.analysis.known_types import (
    DATASET_METHODS,
    MOVERS,
    TENSOR_METHODS,
    WRAPPERS,
)
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding
from gpuproof.linter.analysis.types.libraries import (
    is_keras,
    is_module_class,
    moved_to,
    moves_inside,
    type_of_encoded,
    type_of_named,
)
from gpuproof.linter.analysis.types.loaders import batch_device, device_after_stores
from gpuproof.linter.analysis.types.loops import Iterated, find_iterated, is_direct
from gpuproof.linter.analysis.types.model import (
    UNKNOWN_TYPE,
    InferredType,
    TypeKind,
    common_type,
    type_of_operands,
)
from gpuproof.linter.analysis.types.placement import is_back_on_cpu, is_moved
from gpuproof.linter.analysis.types.transfers import Transfer, kept_items, moved_items, transfer_of

MAX_DEPTH = 16
MAX_PARAMETER_DEPTH = 9
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
        case ast.Attribute():
            return _of_attribute(module, node, depth)
        case ast.Subscript(value=value):
            inner = type_of(module, value, depth + 1)
            if inner.kind in (TypeKind.BATCH, TypeKind.TENSOR):
                return replace(inner, kind=TypeKind.TENSOR)
            return _of_sources(sources(module, node), node, depth)
        case ast.ListComp() | ast.DictComp() | ast.GeneratorExp():
            return _of_moved_items(module, node, depth)
        case ast.BinOp(left=left, right=right):
            return type_of_operands(type_of(module, left, depth + 1), type_of(module, right, depth + 1))
        case ast.IfExp(body=body, orelse=orelse):
            return common_type([type_of(module, body, depth + 1), type_of(module, orelse, depth + 1)])
        case _:
            return UNKNOWN_TYPE


def _of_name(module: Module, node: ast.Name, depth: int) -> InferredType:
    bindings = module.reaching(node)
    if not bindings:
        return (
            _of_sources(sources(module, node), node, depth)
            if node.id in module.names.imports
            else UNKNOWN_TYPE
        )
    found = common_type([_of_binding(module, binding, depth) for binding in bindings])
    if found.kind is TypeKind.BATCH:
        return replace(found, device=device_after_stores(module, node, found))
    placed = _placed(module, node, found)
    if placed.kind is TypeKind.MODULE and placed.device == "gpu" and is_back_on_cpu(module, node):
        return replace(placed, device=None)
    return placed


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
    """The type of one of several values: of what a function of the project returns together, or moves one by one."""
    if binding.index is None or binding.value is None:
        return UNKNOWN_TYPE
    moved = _of_moved_items(module, binding.value, depth)
    if moved.kind is not None:
        return replace(moved, kind=TypeKind.TENSOR)
    if not isinstance(binding.value, ast.Call):
        return _of_sources(item_sources(module, binding.value, binding.index), binding.value, depth)
    made = targets(module, binding.value.func)
    if len(made) != 1 or isinstance(made[0].node, ast.ClassDef):
        return UNKNOWN_TYPE
    items: list[ast.expr] = []
    for value in returned_values(made[0]):
        if not isinstance(value, ast.Tuple) or binding.index >= len(value.elts):
            found = item_sources(module, binding.value, binding.index)
            return _of_sources(found, binding.value, depth)
        items.append(value.elts[binding.index])
    return (
        common_type([type_of(made[0].module, item, depth + 2) for item in items]) if items else UNKNOWN_TYPE
    )


def _of_moved_items(module: Module, node: ast.expr, depth: int) -> InferredType:
    """The type of `[t.to(device) for t in batch]`."""
    found = moved_items(node)
    kept = kept_items(node) if found is None else None
    if kept is not None:
        inner = type_of(module, kept, depth + 1)
        is_batch = inner.kind in (TypeKind.TENSOR, TypeKind.BATCH)
        return replace(inner, kind=TypeKind.BATCH) if is_batch else UNKNOWN_TYPE
    if found is None:
        return UNKNOWN_TYPE
    batch, move = found
    items = batch.elts if isinstance(batch, (ast.Tuple, ast.List)) else [batch]
    known = [type_of(module, item, depth + 1) for item in items]
    call = call_of(module, move)
    if call is None or any(item.kind not in (TypeKind.BATCH, TypeKind.TENSOR) for item in known):
        return UNKNOWN_TYPE
    return InferredType(TypeKind.BATCH, moved_to(module, call, known[0]))


def _of_loop(module: Module, binding: Binding, depth: int) -> InferredType:
    iterated = find_iterated(module, binding.value)
    inner = type_of(module, iterated.value, depth + 1)
    if inner.kind is TypeKind.LOADER:
        whole = binding.index is None and not iterated.counted
        # `for i, batch in enumerate(loader)`, `for i, (x, y) in ...`: the counter is not a tensor.
        if iterated.counted and binding.index == 0:
            return UNKNOWN_TYPE
        return InferredType(
            TypeKind.BATCH if whole or (iterated.counted and is_direct(module, binding)) else TypeKind.TENSOR,
            batch_device(module, iterated.value),
        )
    return _of_generated(module, binding, iterated, depth)


def _of_generated(module: Module, binding: Binding, iterated: Iterated, depth: int) -> InferredType:
    """The type of what a generator function of the project yields, or of one of the values that it yields together."""
    generator = module.origin(iterated.value)
    made = targets(module, generator.func) if isinstance(generator, ast.Call) else []
    if len(made) != 1 or isinstance(made[0].node, ast.ClassDef):
        return UNKNOWN_TYPE
    home, function = made[0]
    yields = [item for item in home.nodes(ast.Yield, ast.YieldFrom) if home.function_of(item) is function]
    known: list[InferredType] = []
    for item in yields:
        value = item.value
        if isinstance(item, ast.YieldFrom) or value is None:
            return UNKNOWN_TYPE
        if not isinstance(value, ast.Tuple):
            is_whole = binding.index is None and isinstance(
                module.parent(binding.node), (ast.For, ast.AsyncFor)
            )
            known.append(type_of(home, value, depth + 2) if is_whole else UNKNOWN_TYPE)
        elif iterated.counted or binding.index is None or binding.index >= len(value.elts):
            return UNKNOWN_TYPE
        else:
            known.append(type_of(home, value.elts[binding.index], depth + 2))
    return common_type(known) if known else UNKNOWN_TYPE


def _of_parameter(module: Module, binding: Binding, depth: int) -> InferredType:
    """The type of the argument that every call in the program passes for a parameter."""
    function = binding.scope
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or depth > MAX_PARAMETER_DEPTH:
        return UNKNOWN_TYPE
    sites = known_call_sites(module, function)
    if not sites:
        return _of_served(module, function, binding.name, depth)
    given = [passed(site, Definition(module, function), binding.name) for site in sites]
    if None in given:
        return UNKNOWN_TYPE
    return common_type([type_of(item.module, item.node, depth + 2) for item in given if item is not None])


def _of_served(
    module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, depth: int
) -> InferredType:
    """The type of what the serving toolkit passes on: `output_fn` gets what `predict_fn` returns."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    place = names.index(name) if name in names else len(names)
    maker = module.functions.get(HANDLERS.get((function.name, place), ""))
    returned = returned_values(Definition(module, maker)) if maker is not None else []
    return (
        common_type([type_of(module, value, depth + 3) for value in returned]) if returned else UNKNOWN_TYPE
    )


def _of_attribute(module: Module, node: ast.Attribute, depth: int) -> InferredType:
    """The type of an attribute: of the project's own object, of a batch, or of what DistributedDataParallel wraps."""
    found = _of_sources(attribute_sources(module, node), node, depth)
    if found.kind is None and node.attr == "module":
        return type_of(module, node.value, depth + 1)
    if found.kind is None and not isinstance(node.value, ast.Name):
        return UNKNOWN_TYPE
    if found.kind is None and type_of(module, node.value, depth + 1).kind is TypeKind.BATCH:
        return replace(type_of(module, node.value, depth + 1), kind=TypeKind.TENSOR)
    if found.kind is TypeKind.MODULE:
        # A submodule moves with the module around it.
        owner = class_of(module, node.value)
        if (
            owner is not None
            and isinstance(owner.node, ast.ClassDef)
            and is_module_class(owner.module, owner.node)
        ):
            return InferredType(TypeKind.MODULE, type_of(module, node.value, depth + 1).device)
    return _placed(module, node, found)


def _of_sources(found: Sources, node: ast.expr, depth: int) -> InferredType:
    """The common type of what makes a value; unknown if something else may, too."""
    if not found.found or not found.complete or any(source.node is node for source in found.found):
        return UNKNOWN_TYPE
    known = [type_of(source.module, source.node, depth + 2) for source in found.found]
    # `self.model = None` in the constructor, before the model is made.
    known = [
        item
        for item, source in zip(known, found.found, strict=True)
        if not (isinstance(source.node, ast.Constant) and source.node.value is None)
    ]
    return common_type(known) if known else UNKNOWN_TYPE


def _placed(module: Module, node: ast.expr, found: InferredType) -> InferredType:
    """The type of a module that a call may move in place, anywhere in the program."""
    if found.kind is not TypeKind.MODULE or found.device != "cpu":
        return found
    answer = is_moved(module, creations(module, node))
    return found if answer == "no" else replace(found, device="gpu" if answer == "yes" else None)


def _of_call(module: Module, node: ast.Call, depth: int) -> InferredType:
    call = origin_call(module, node) or Call(node, module)
    if call.name is not None:
        wraps = call.name.endswith(WRAPPERS) and bool(node.args)
        named = type_of(module, node.args[0], depth + 1) if wraps else type_of_named(call)
        if named.kind is not None:
            return _with_arguments(module, call, named, depth)
    items = _of_moved_items(module, node, depth)
    if items.kind is not None:
        return items
    own = _of_own(module, node, depth)
    if own.kind is not None:
        return own
    encoded = type_of_encoded(call)
    if encoded.kind is not None and not targets(module, node.func):
        return encoded
    result = _of_model(module, call, depth)
    if result.kind is not None or call.receiver is None:
        return result
    return _of_method(module, call, type_of(module, call.receiver, depth + 1))


def _of_model(module: Module, call: Call, depth: int) -> InferredType:
    """What a model returns, which is where the model is."""
    function = call.node.func
    if call.name is not None or not isinstance(function, (ast.Name, ast.Attribute)) or not call.node.args:
        return UNKNOWN_TYPE
    if isinstance(function, ast.Attribute) and not is_stored(module, function.attr):
        return UNKNOWN_TYPE
    model = type_of(module, function, depth + 2)
    return InferredType(TypeKind.TENSOR, model.device) if model.kind is TypeKind.MODULE else UNKNOWN_TYPE


def _with_arguments(module: Module, call: Call, found: InferredType, depth: int) -> InferredType:
    """The type of what a call makes of its arguments: `zeros_like(x)` is where `x` is, `Sequential(net)` where `net` is."""
    given = call.node.args
    if found.kind is TypeKind.TENSOR and "device" not in call.keywords and given:
        if call.method.endswith("_like"):
            return replace(found, device=type_of(module, given[0], depth + 1).device)
        if call.method in ("stack", "cat", "as_tensor"):
            items = given[0].elts if isinstance(given[0], (ast.List, ast.Tuple)) else [given[0]]
            devices = {type_of(module, item, depth + 1).device for item in items}
            return replace(found, device=devices.pop() if len(devices) == 1 else None)
    if found.kind is TypeKind.MODULE and found.device == "cpu":
        parts = [
            type_of(module, item, depth + 1) for item in given if isinstance(item, (ast.Name, ast.Attribute))
        ]
        if any(part.kind is TypeKind.MODULE and part.device != "cpu" for part in parts):
            return replace(found, device=None)
    return found


def _of_own(module: Module, node: ast.Call, depth: int) -> InferredType:
    """What a class or function of the project makes."""
    made = targets(module, node.func)
    return common_type([_of_target(module, node, target, depth) for target in made]) if made else UNKNOWN_TYPE


def _of_target(module: Module, node: ast.Call, made: Definition, depth: int) -> InferredType:
    home, owner = made
    if isinstance(owner, ast.ClassDef):
        if is_module_class(home, owner):
            return InferredType(TypeKind.MODULE, None if moves_inside(home, owner) else "cpu")
        if any(is_keras(base) and base.endswith((".Model", ".Sequential")) for base in home.bases(owner)):
            return InferredType(TypeKind.KERAS_MODEL)
        return UNKNOWN_TYPE
    transfer = transfer_of(made)
    if transfer is not None:
        return _transferred(module, node, made, transfer, depth)
    returns = returned_values(made)
    return common_type([type_of(home, value, depth + 2) for value in returns]) if returns else UNKNOWN_TYPE


def _transferred(
    module: Module, node: ast.Call, function: Definition, transfer: Transfer, depth: int
) -> InferredType:
    """The type of an argument that a function returns, moved or as it is."""
    bound = 1 if isinstance(node.func, ast.Attribute) and _is_method(function) else 0
    given = passed(CallSite(module, node, bound), function, transfer.parameter)
    if given is None:
        return UNKNOWN_TYPE
    found = type_of(given.module, given.node, depth + 1)
    move = call_of(function.module, transfer.move) if transfer.move is not None else None
    return replace(found, device=moved_to(function.module, move, found)) if move is not None else found


def _is_method(function: Definition) -> bool:
    return isinstance(function.module.parent(function.node), ast.ClassDef)


def _of_method(module: Module, call: Call, receiver: InferredType) -> InferredType:
    match receiver.kind:
        case TypeKind.TENSOR | TypeKind.MODULE | TypeKind.BATCH if call.method in MOVERS:
            return replace(receiver, device=moved_to(module, call, receiver))
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
