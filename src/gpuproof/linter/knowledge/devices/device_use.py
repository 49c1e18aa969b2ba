"""Detects whether a script may move something to a GPU: a device that is only declared, printed or tested moves nothing."""

from __future__ import annotations

import ast
import re

from gpuproof.linter.analysis.call import Call, all_calls, calls_named, origin_call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.call_targets import find_definition
from gpuproof.linter.analysis.flow.value_flow import Arrival, follow
from gpuproof.linter.analysis.local_imports import MAX_MODULES, local_modules, local_units, program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import argument_node, callee_name
from gpuproof.linter.analysis.usage import find_uses

_MANAGERS = re.compile(
    r"""
    ^\.*(accelerate|lightning|pytorch_lightning|deepspeed|torch_xla|horovod|smdistributed|ignite|fastai|skorch|torch_neuron
        |torch_neuronx|lightning_fabric|fabric)(\.|$)
    | (^|\.)(Accelerator|Trainer|Seq2SeqTrainer|Fabric)$ | (^|\.)hvd\.
    """,
    re.VERBOSE,
)
"""Libraries and functions that place models and batches themselves."""
_DEVICE_CALLS = re.compile(
    r"^torch\.(device|cuda\.(current_device|device|device_of)|accelerator\.current_accelerator)$"
)
"""Calls that return a device."""
_CUDA = re.compile(r"^torch\.(cuda|mps|xpu|accelerator)\.")
_NO_PLACEMENT = re.compile(
    r"^torch\.(cuda|mps|xpu|accelerator)\.(is_\w+|manual_seed\w*|empty_cache|synchronize|device_count|set_device\w*"
    r"|get_device_\w+|memory_\w+|max_memory_\w+|reset_\w+|seed\w*|get_rng_state\w*|set_rng_state\w*|Event|nvtx\b.*|amp\b.*|init"
    r"|mem_get_info|set_per_process_memory_fraction|ipc_collect|utilization|OutOfMemoryError|current_stream|get_arch_list)$"
)
"""Functions that neither move a tensor nor choose a device."""
_DEVICE_TEXT = re.compile(r"^(cuda|mps|xpu|xla|gpu)(:|$)|^torch\.cuda\.|^/?(device:)?GPU:", re.IGNORECASE)
_CARRIERS = re.compile(r"(^|\.)(torch\.device|str|get|getenv|lower|strip|format|join|field|int)$")
_IDLE = re.compile(
    r"""
    (^|\.)(print|pprint|info|debug|warning|error|log|critical|exception|format|isinstance|type|len|repr|get_device_\w+|memory_\w+
        |max_memory_\w+|synchronize|set_device|autocast|GradScaler|is_available|startswith|endswith|Generator|ValueError
        |RuntimeError|empty_cache|log_params|write|manual_seed\w*|mem_get_info|split|init|update|add_argument)$
    """,
    re.VERBOSE,
)
"""Calls that move nothing to the device that they receive."""
_DTYPES = re.compile(
    r"^torch\.(float|double|half|bfloat|int|long|short|uint|bool|complex|channels_last|contiguous)\w*$"
)


def may_use_device(script: Module) -> bool:
    """Whether the script, or a project module that it imports, may move something to a device; true if in doubt."""
    modules = local_modules(script)
    found = script.loader.cached(
        "touches a device",
        script.unit,
        lambda: any(_moves_directly(module) for module in modules) or _moves_chosen(modules),
    )
    return found or len(local_units(script)) >= MAX_MODULES


def program_may_use_device(module: Module) -> bool:
    """Whether a module of the programs that run a module may move something to a device; true if in doubt."""

    def found() -> bool:
        modules = program_modules(module)
        return any(_moves_directly(other) for other in modules) or _moves_chosen(modules)

    return module.loader.cached("the program touches a device", module.unit, found)


def touches_device(module: Module) -> bool:
    """Whether the code of one module may move something to a device."""
    return _moves_directly(module) or _moves_chosen([module])


def _moves_directly(module: Module) -> bool:
    """Whether a module moves something to a device that it does not choose itself, or uses a library that moves it."""
    if calls_named(module, "cuda") or any(_moves(call) for call in calls_named(module, "to")):
        return True
    if any(
        _MANAGERS.search(use.text) and not _is_own(module, use.node)
        for use in find_uses(module, "name", "call")
    ):
        return True
    named = find_uses(module, "name", "call")
    if any(
        _CUDA.search(use.text) and not _NO_PLACEMENT.search(use.text) and not _DEVICE_CALLS.search(use.text)
        for use in named
    ):
        return True
    for call in all_calls(module):
        for name, given in call.keywords.items():
            if (
                name in ("device", "device_map", "device_id")
                and not _is_known_place(module, given)
                and not _is_idle(call)
            ):
                return True
        if any(
            isinstance(given, ast.Name) and given.id == "device" and _is_from_outside(module, given)
            for given in call.node.args
        ):
            return True
    return False


def _is_own(module: Module, node: ast.AST) -> bool:
    """Whether a name is one of the project's own classes or functions, such as its `Trainer`, which are looked into."""
    named = node.func if isinstance(node, ast.Call) else node
    return isinstance(named, (ast.Name, ast.Attribute)) and find_definition(module, named) is not None


def _moves_chosen(modules: list[Module]) -> bool:
    """Whether a call receives a device that the modules choose, and may move something there."""
    starts: list[tuple[Module, ast.expr]] = []
    for module in modules:
        starts += [(module, call.node) for call in all_calls(module) if _DEVICE_CALLS.search(call.name or "")]
        starts += [
            (module, node)
            for node in module.nodes(ast.Constant)
            if isinstance(node.value, str) and _DEVICE_TEXT.search(node.value)
        ]
    return any(_places(arrival) for arrival in follow(modules, starts, _carries))


def _places(arrival: Arrival) -> bool:
    """Whether a place that receives a device may move something there."""
    module, node, called = arrival
    if called is None:
        return True
    call = origin_call(module, called) or Call(called, module)
    if call.method == "to":
        # Its target decides, which may be known to be the CPU.
        return _moves(call)
    if _is_known_cpu(module, node):
        return False
    if node is argument_node(called, "map_location") or (
        call.name == "torch.load" and node in called.args[1:2]
    ):
        return not _goes_to_parameters(call)
    return not _is_idle(call)


def _moves(call: Call) -> bool:
    """Whether `x.to(...)` may move `x` to a GPU: not with a type only, the CPU, or the device of another tensor."""
    given = [*call.node.args, *call.keywords.values()]
    if given and all(_DTYPES.match(call.module.qualified(argument) or "") for argument in given):
        return False
    target = call.expression("device", 0)
    return target is None or not _is_known_place(call.module, target)


def _is_known_place(module: Module, node: ast.expr) -> bool:
    """Whether a device is the CPU, or that of a tensor or model, or one that the module chooses and that is followed from there."""
    if _is_known_cpu(module, node):
        return True
    made = module.origin(node)
    return isinstance(made, ast.Attribute) and made.attr == "device" and _is_of_tensor(module, made.value)


def _is_known_cpu(module: Module, node: ast.AST) -> bool:
    if not isinstance(node, ast.expr):
        return False
    made = origin_call(module, node)
    if made is not None and made.name == "torch.device":
        value = made.argument("type", 0)
    else:
        value = evaluate(module, node)
    # -1 is the CPU of `pipeline`.
    return value.is_known and (value.text == "cpu" or value.number == -1)


def _is_of_tensor(module: Module, holder: ast.expr) -> bool:
    """Whether `holder.device` certainly is where a tensor or model is: `next(model.parameters()).device`."""
    if isinstance(holder, ast.Call):
        return callee_name(holder) == "next"
    if not isinstance(holder, ast.Name) or holder.id in ("self", "args", "cfg", "config", "opt"):
        return False
    stores = [
        node
        for node in module.nodes(ast.Attribute)
        if node.attr == "device" and isinstance(node.ctx, ast.Store)
    ]
    bindings = module.reaching(holder)
    return (
        not stores
        and bool(bindings)
        and holder.id in ("model", "net", "module", "x", "inputs", "tensor", "input_ids", "logits")
    )


def _goes_to_parameters(call: Call) -> bool:
    """Whether what `torch.load` returns is only copied into the parameters of a model, wherever these are."""
    arrivals = follow(
        [call.module],
        [(call.module, call.node)],
        lambda _, other: callee_name(other) in ("get", "items", "copy", "OrderedDict"),
    )
    received = [arrival.call for arrival in arrivals]
    return bool(received) and all(
        other is not None and callee_name(other) in ("load_state_dict", "print", "len") for other in received
    )


def _is_from_outside(module: Module, name: ast.Name) -> bool:
    """Whether a `device` that a call receives may be chosen by code that is not seen, such as another function's caller."""
    bindings = module.reaching(name)
    if not bindings:
        return True
    return any(
        binding.kind != "assign"
        and not (
            binding.kind == "parameter"
            and isinstance(binding.scope, (ast.FunctionDef, ast.AsyncFunctionDef))
            and calls_named(module, binding.scope.name)
        )
        for binding in bindings
    )


def _carries(module: Module, call: ast.Call) -> bool:
    return _CARRIERS.search(module.qualified(call.func) or callee_name(call)) is not None


def _is_idle(call: Call) -> bool:
    return _IDLE.search(call.name or call.method) is not None
