"""Models that are trained where they were made, in programs that move other things to a GPU."""

from __future__ import annotations

from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.flow.repeats import repeats, trains
from gpuproof.linter.analysis.local_imports import program_modules, unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import imports_device_manager


def is_trained_on_cpu(module: Module, run: Call) -> bool:
    """Whether a model that is certainly on the CPU runs in a training loop, and an optimizer certainly gets its parameters."""
    if not any(trains(repeat.module, repeat.loop) for repeat in repeats(module, run.node)[:1]):
        return False
    modules = program_modules(module)
    if any(map(imports_device_manager, modules)) or any(map(unseen_imports, modules)):
        return False
    own = {made.node for made in creations(module, run.node.func)}
    return any(
        own & {made.node for made in creations(other, call.receiver)}
        for other in modules
        for call in calls_named(other, "parameters")
    )
