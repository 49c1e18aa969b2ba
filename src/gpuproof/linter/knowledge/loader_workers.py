"""The worker processes of a script's DataLoaders, which pass their batches through shared memory."""

from __future__ import annotations

from typing import NamedTuple

from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module


class LoaderWorkers(NamedTuple):
    """A DataLoader with worker processes.

    Attributes:
        title: its file and line, for messages.
    """

    workers: int
    title: str


def loader_workers(script: Module) -> LoaderWorkers | None:
    """The DataLoader with the most workers in a script and the modules that it imports; None if no number is known."""
    found: list[LoaderWorkers] = []
    for module in local_modules(script):
        for call in calls_named(module, "DataLoader"):
            name = call.name or ""
            workers = call.argument("num_workers", 5).number
            if name.startswith("torch") and workers:
                line = module.unit.file_position(module.span(call.node).line, 1)[1]
                found.append(LoaderWorkers(int(workers), f"{module.title}, line {line}"))
    return max(found, key=lambda loader: loader.workers, default=None)
