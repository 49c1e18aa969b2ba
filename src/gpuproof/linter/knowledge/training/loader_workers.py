"""The worker processes of a script's DataLoaders, which pass their batches through shared memory."""

from __future__ import annotations

from typing import NamedTuple

from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module


class LoaderWorkers(NamedTuple):
    """A DataLoader with worker processes.

    Attributes:
        title: its file and line, for messages.
        loads_images: whether the script reads photographs, a few batches of which fill 64 MB.
    """

    workers: int
    title: str
    loads_images: bool


def loader_workers(script: Module) -> LoaderWorkers | None:
    """The DataLoader with the most workers in a script and the modules that it imports; None if no number is known."""
    found: list[LoaderWorkers] = []
    modules = local_modules(script)
    images = any(_reads_photographs(call) for module in modules for call in all_calls(module))
    for module in modules:
        for call in calls_named(module, "DataLoader"):
            name = call.name or ""
            workers = call.argument("num_workers", 5).number
            if name.startswith("torch") and workers:
                line = module.unit.file_position(module.span(call.node).line, 1)[1]
                found.append(LoaderWorkers(int(workers), f"{module.title}, line {line}", images))
    return max(found, key=lambda loader: loader.workers, default=None)


_PHOTOGRAPHS = frozenset(
    {
        "ImageFolder",
        "ImageNet",
        "CocoDetection",
        "CocoCaptions",
        "VOCDetection",
        "RandomResizedCrop",
        "imread",
        "read_image",
    }
)
_SIZED = frozenset({"Resize", "CenterCrop", "RandomCrop", "resize"})
_LEAST = 96
"""Pixels; a batch of 32 images of this size takes 3.5 MB as float32."""


def _reads_photographs(call: Call) -> bool:
    if call.method in _PHOTOGRAPHS or call.name == "PIL.Image.open":
        return True
    if call.method not in _SIZED:
        return False
    size = call.argument("size", 0)
    numbers = [size.number, *(item.number for item in size.items or ())]
    return any(number is not None and number >= _LEAST for number in numbers)
