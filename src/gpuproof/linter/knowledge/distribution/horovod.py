"""Horovod and SageMaker's data parallel library: what a script that calls `hvd.init()` does with ranks and gradients."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses, uses
from gpuproof.linter.source.test_files import is_test_file

_LIBRARY = re.compile(
    r"^(horovod\.(torch|tensorflow|keras|mxnet|tensorflow\.keras)|byteps\.\w+"
    r"|smdistributed\.dataparallel\.(torch\.distributed|tensorflow))\b"
)
_INIT = re.compile(r"\.(init|init_process_group)$")
SHARES = re.compile(
    r"(^|\.)(Distributed\w*Optimizer|DistributedGradientTape|DistributedDataParallel|DistributedTrainer|DDP|\w*allreduce\w*|\w*all_reduce\w*"
    r"|allgather\w*|reducescatter\w*|partial_distributed_optimizer\w*|Distributed\w*Trainer|SyncBatchNorm_)$"
)
"""Functions and classes through which ranks exchange gradients."""
_TRAINS = ("backward", "fit", "fit_generator", "apply_gradients", "minimize", "train_on_batch")


def library_inits(module: Module) -> list[Call]:
    """The calls in a module, tests excepted, that start Horovod or SageMaker's data parallel library: `hvd.init()`, `sdp.init()`."""
    if is_test_file(module.unit):
        return []
    return [
        call
        for call in calls_named(module, "init", "init_process_group")
        if call.name is not None and _LIBRARY.match(call.name) and _INIT.search(call.name)
    ]


def library_title(call: Call) -> str:
    """The name of the library of one of these calls, for messages."""
    return "SageMaker's data parallel library" if (call.name or "").startswith("smd") else "Horovod"


def is_library_name(name: str | None) -> bool:
    """Whether a qualified name is in one of these libraries."""
    return name is not None and _LIBRARY.match(name) is not None


def library_calls(script: Module, *names: str) -> list[Call]:
    """The calls of these functions of the library, in the script and the project's modules that it imports."""
    return [
        call
        for module in local_modules(script)
        for call in calls_named(module, *names)
        if is_library_name(call.name)
    ]


def trains_with(script: Module) -> list[Call]:
    """The calls that train a model: `loss.backward()`, `model.fit()`, `optimizer.apply_gradients()`."""
    return [
        call
        for module in local_modules(script)
        for call in calls_named(module, *_TRAINS)
        if call.receiver is not None and call.name is None
    ]


def shares_gradients(script: Module) -> bool:
    """Whether anything in the script may exchange gradients; true if in doubt."""
    return any(uses(module, SHARES, "call", "name") for module in local_modules(script))


def rank_reads(script: Module, *names: str) -> Iterator[tuple[Module, ast.AST]]:
    """The uses of `hvd.rank`, `hvd.size` and the like, called or not, with their modules."""
    for module in local_modules(script):
        for use in find_uses(module, "name"):
            if use.text.rpartition(".")[2] in names and is_library_name(use.text):
                call = module.parent(use.node)
                yield module, call if isinstance(call, ast.Call) and call.func is use.node else use.node


def seeds(script: Module) -> bool:
    """Whether the script sets a seed, with which the copies of a model may start equal on all ranks."""
    return any(
        call.method in ("manual_seed", "set_seed", "set_random_seed", "seed_everything", "manual_seed_all")
        for module in local_modules(script)
        for call in all_calls(module)
    )
