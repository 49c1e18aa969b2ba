"""Detects whether a script may use several GPUs, and whether it trains a model."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from gpuproof.linter.analysis.call import Call, all_calls, calls_named, origin_call
from gpuproof.linter.analysis.flow.value_flow import follow
from gpuproof.linter.analysis.local_imports import MAX_MODULES, local_modules, local_units
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.usage import find_uses, uses
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.knowledge.programs import starts_programs

_LIBRARIES = re.compile(
    r"""
    ^\.*(torch\.distributed|torch\.multiprocessing|tensorflow\.distribute|tensorflow\.keras\.distribution|keras\.distribution
        |horovod|smdistributed|deepspeed|accelerate|lightning|pytorch_lightning|lightning_fabric|torch_xla|multiprocessing
        |ray|concurrent\.futures\.ProcessPoolExecutor)(\.|$)
    | (^|\.)hvd\.
    """,
    re.VERBOSE,
)
"""Libraries that start processes, connect them, or spread a model over GPUs."""
_CALLS = re.compile(
    r"(^|\.)(\w*DataParallel|DDP|FSDP|fully_shard|init_process_group|\w*Strategy|multi_gpu_model"
    r"|Accelerator|parallelize_module)$"
)
_ONE_GPU = re.compile(
    r"^tensorflow\.distribute\.(get_strategy|get_replica_context|in_cross_replica_context|has_strategy|OneDeviceStrategy|ReduceOp"
    r"|Strategy)(\.|$)"
    r"|^(torch\.)?multiprocessing\.(cpu_count|\w*start_method\w*|set_sharing_strategy|current_process|freeze_support)$"
    r"|^torch\.distributed\.(is_\w+|get_rank|get_world_size|destroy_process_group|barrier)$"
    r"|(^|\.)(set_seed|seed_everything|get_logger|rank_zero_\w+|is_\w+_available)$"
)
"""Parts of the libraries that spread nothing: `get_strategy()` outside of a scope is a strategy for one device."""
_COUNTS = re.compile(r"(^|\.)(device_count|num_gpus|list_(physical|logical)_devices)$")
"""Calls that count or list the GPUs."""
_COUNT_CARRIERS = re.compile(
    r"(^|\.)(get|getenv|loads)$|^(len|list|sorted|enumerate|reversed|str|int|bool|max|min|range|zip)$"
)
_COUNT_IDLE = re.compile(
    r"(^|\.)(print|pprint|info|debug|warning|error|log|critical|set_memory_growth|set_visible_devices|write"
    r"|set_(virtual_device|logical_device)_configuration|get_device_details|get_memory_info|log_params?|format|bool|isinstance"
    r"|ValueError|RuntimeError|SystemExit|exit)$"
)
"""Calls that use none of the GPUs in their arguments."""
_PLACES = re.compile(r"(^|\.)(set_device|device|to|cuda|synchronize|current_device|get_device_\w+)$")
"""Calls that choose the GPU of a process by its number, and connect it with no other."""
_KEYWORDS = re.compile(
    r"^(device_map|device_ids|gpus|num_gpus|n_gpus|tensor_parallel\w*|tp_size|distribute\w*|devices)$"
)
_ATTRIBUTES = re.compile(r"^(local_rank|num_gpus|n_gpus?|world_size)$")
_COUNT_TEXTS = re.compile(r"^(LOCAL_RANK|(LOCAL_)?WORLD_SIZE|SM_NUM_GPUS)$")
"""Variables that contain the number of GPUs or processes, or a number of one of them."""
_TEXTS = re.compile(r"^nccl$|torchrun|^cuda:$|GPU:$")
_CONNECTING_TEXTS = re.compile(r"^nccl$|torchrun")
_NUMBERED = re.compile(r"^(cuda|/?(device:)?GPU):\d+$", re.IGNORECASE)
"""GPUs by number: several of them are used only if there are several numbers."""
_ONE_DEVICE = re.compile(r"^(cpu|cuda|mps|gpu|(cuda:|/?gpu:)?\d)$", re.IGNORECASE)


_LIGHTNING = re.compile(r"^(lightning|pytorch_lightning|lightning_fabric)\.(\w+\.)*(Trainer|Fabric)$")
_TRAINER = re.compile(r"^(transformers|trl)\.(\w+\.)*\w*Trainer$")
_LIMITS = {
    "tensorflow.distribute.MirroredStrategy": ("devices", 0),
    "torch.nn.DataParallel": ("device_ids", 1),
    "torch.nn.parallel.DataParallel": ("device_ids", 1),
    "torch.multiprocessing.spawn": ("nprocs", 2),
}
"""Calls that spread a model over GPUs, with the argument that limits them to some."""


class GpuLimit(NamedTuple):
    """A number of GPUs that a script asks for.

    Attributes:
        gpus: how many GPUs of a host it uses.
        written: the argument that says so, such as `devices=1`.
        is_known: whether no argument or variable can change it.
        call: the call that receives it.
    """

    gpus: int
    written: str
    is_known: bool
    call: Call


def requested_gpus(script: Module) -> GpuLimit | None:
    """The number of GPUs of a host that the script asks for; None if it takes all, or if it is unknown.

    With several such calls, the largest number counts, and one of an unknown number leaves it unknown.
    """
    found: list[GpuLimit] = []
    for module in local_modules(script):
        for call in all_calls(module):
            names = _limiting_arguments(call)
            if names is None:
                continue
            limit = _limit(call, names)
            if limit is None:
                return None
            found.append(limit)
    return max(found, key=lambda limit: limit.gpus, default=None)


def trainer_runs(script: Module) -> list[Call]:
    """The calls of a script that train with a Trainer of transformers or TRL: `trainer.train()`."""
    return [
        call
        for module in local_modules(script)
        for call in calls_named(module, "train", "hyperparameter_search")
        if (made := origin_call(module, call.receiver)) is not None and _TRAINER.match(made.name or "")
    ]


def _limiting_arguments(call: Call) -> tuple[tuple[str, int | None], ...] | None:
    name = call.name or ""
    if _LIGHTNING.match(name):
        # `gpus` is what Lightning 1 called it.
        return (
            None
            if call.argument("accelerator").text in ("cpu", "tpu")
            else (("devices", None), ("gpus", None))
        )
    return (_LIMITS[name],) if name in _LIMITS else None


def _limit(call: Call, names: tuple[tuple[str, int | None], ...]) -> GpuLimit | None:
    for keyword, position in names:
        value = call.argument(keyword, position)
        count = _count(value)
        written = call.expression(keyword, position)
        if count is not None and written is not None:
            return GpuLimit(count, f"{keyword}={call.module.text(written)}", value.is_known, call)
    return None


def _count(value: Value) -> int | None:
    """How many GPUs a value stands for: a count, a list of devices, or either as a text; -1 and "auto" mean all."""
    if value.items is not None:
        return len(value.items) or None
    if value.text is not None and re.fullmatch(r"\d+(,\d*)*", value.text):
        parts = [part for part in value.text.split(",") if part]
        return len(parts) if "," in value.text else int(value.text) or None
    number = value.number
    return int(number) if number is not None and number >= 1 else None


def may_use_several_gpus(script: Module) -> bool:
    """Whether the script, or a project module that it imports, may use more than one GPU; true if in doubt."""
    found = script.loader.cached(
        "uses several GPUs",
        script.unit,
        lambda: (
            any(_may_use_several(module, _TEXTS) for module in local_modules(script))
            or starts_programs(script)
            or _uses_each(script, _COUNT_IDLE)
        ),
    )
    return found or len(local_units(script)) >= MAX_MODULES


def may_share_work(script: Module) -> bool:
    """Whether the processes of a script may be connected, or do different things; true if in doubt.

    A process that only takes the GPU of its own number does neither.
    """
    found = script.loader.cached(
        "shares work",
        script.unit,
        lambda: (
            any(_may_use_several(module, _CONNECTING_TEXTS) for module in local_modules(script))
            or starts_programs(script)
            or _uses_each(script, _COUNT_IDLE, _PLACES)
        ),
    )
    return found or len(local_units(script)) >= MAX_MODULES


def _may_use_several(module: Module, texts: re.Pattern[str]) -> bool:
    named = find_uses(module, "name", "call")
    return (
        any(
            (_LIBRARIES.search(use.text) or _CALLS.search(use.text)) and not _ONE_GPU.search(use.text)
            for use in named
        )
        or any(
            _KEYWORDS.search(name) and not _is_one_device(call.argument(name))
            for call in all_calls(module)
            for name in call.keywords
        )
        or uses(module, texts, "string")
        or len({use.text for use in find_uses(module, "string") if _NUMBERED.match(use.text)}) > 1
    )


def _is_one_device(value: Value) -> bool:
    """Whether a value certainly stands for one device, or none: `None`, `1`, `[0]`, `"cuda:0"`, `{"": 0}`."""
    if value.entries is not None:
        devices = {str(entry.value) for entry in value.entries.values()}
        return value.entries.complete and len(devices) <= 1
    if value.items is not None:
        return len(value.items) <= 1
    if not value.is_known:
        return False
    if value.text is not None:
        return _ONE_DEVICE.match(value.text) is not None
    return value.value is None or value.value in (0, 1)


def _uses_each(script: Module, *idle: re.Pattern[str]) -> bool:
    """Whether anything but the calls of some names may use the GPUs or processes that the script counts, lists or numbers."""
    modules = local_modules(script)
    starts: list[tuple[Module, ast.expr]] = []
    for module in modules:
        starts += [
            (module, call.node) for call in all_calls(module) if _COUNTS.search(call.name or call.method)
        ]
        named = [use for use in find_uses(module, "attribute") if _ATTRIBUTES.search(use.text)]
        named += [use for use in find_uses(module, "string") if _COUNT_TEXTS.search(use.text)]
        starts += [(module, use.node) for use in named if isinstance(use.node, ast.expr)]
    return any(
        arrival.call is None
        or not any(pattern.search(_callee(arrival.module, arrival.call)) for pattern in idle)
        for arrival in follow(
            modules, starts, lambda module, call: _COUNT_CARRIERS.search(_callee(module, call)) is not None
        )
    )


def _callee(module: Module, call: ast.Call) -> str:
    return module.qualified(call.func) or callee_name(call)


def trains_model(script: Module) -> bool:
    """Whether the script trains with `backward()` of PyTorch, `fit()` of Keras, or a gradient tape."""
    modules = local_modules(script)
    for module in modules:
        if calls_named(module, "backward") and any(other.imports("torch") for other in modules):
            return True
        keras = any(other.imports("tensorflow", "keras") for other in modules)
        if keras and calls_named(module, "fit", "train_on_batch", "apply_gradients", "fit_generator"):
            return True
    return False
