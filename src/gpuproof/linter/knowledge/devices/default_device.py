"""Whether a program moves anything to a GPU itself, and leaves new tensors on the CPU."""

from __future__ import annotations

import re

from gpuproof.linter.analysis.call import Call, all_calls, calls_named, origin_call
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import moves_to_gpu

_MOVES_INPUT = re.compile(r"(^|\.)(set_default_device|set_default_tensor_type)$")


def program_moves_to_gpu(module: Module) -> bool:
    """Whether the program moves anything to a GPU, and leaves it to no default device."""
    modules = [other for other in program_modules(module) if other.mentions("cuda", ".to(", "set_default")]
    return all(map(_keeps_default, modules)) and any(map(_moves_anything, modules))


def _keeps_default(module: Module) -> bool:
    """Whether new tensors of a module are on the CPU."""
    return module.loader.cached(
        "keeps the default device",
        module.unit,
        lambda: all(
            _is_of_cpu(call) for call in all_calls(module) if _MOVES_INPUT.search(call.name or call.method)
        ),
    )


def _moves_anything(module: Module) -> bool:
    return module.loader.cached(
        "moves to a GPU", module.unit, lambda: any(map(moves_to_gpu, calls_named(module, "to", "cuda")))
    )


def _is_of_cpu(default: Call) -> bool:
    """Whether a default device or type is that of the CPU: `"cpu"`, `torch.FloatTensor`."""
    given = default.expression("device", 0)
    if given is None:
        return False
    name = default.module.qualified(given) or ""
    if name.startswith("torch.") and name.endswith("Tensor"):
        return ".cuda." not in name
    made = origin_call(default.module, given)
    text = (
        made.argument("type", 0)
        if made is not None and made.name == "torch.device"
        else default.argument("device", 0)
    )
    return text.is_known and str(text.text).startswith(("cpu", "torch.FloatTensor", "torch.DoubleTensor"))
