"""Detects whether a script may use a GPU."""

from __future__ import annotations

import ast
import re

from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.local_imports import MAX_MODULES, local_modules, local_units
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses, uses

_MANAGERS = re.compile(
    r"""
    ^\.*(accelerate|lightning|pytorch_lightning|deepspeed|torch_xla|horovod|smdistributed|ignite|fastai|skorch|torch_neuron
        |torch_neuronx|lightning_fabric|fabric)(\.|$)
    | (^|\.)(Accelerator|Trainer|Seq2SeqTrainer|Fabric|set_default_device|set_default_tensor_type)$ | (^|\.)hvd\.
    """,
    re.VERBOSE,
)
"""Libraries and functions that place models and batches themselves."""
_CUDA = re.compile(r"^torch\.(cuda|mps|xpu|device|accelerator)(\.|$)")
_NO_PLACEMENT = re.compile(
    r"^torch\.(cuda|mps|xpu|accelerator)\.(is_available|is_bf16_supported|manual_seed\w*|empty_cache|synchronize|device_count"
    r"|get_device_\w+|memory_\w+|max_memory_\w+|reset_\w+|seed\w*|get_rng_state\w*|set_rng_state\w*|Event|nvtx\b.*)$"
)
"""Functions that neither move a tensor nor choose a device."""
_DEVICE_TEXT = re.compile(r"^(cuda|mps|xpu|xla|gpu)(:|$)|torch\.cuda\.|^/?(device:)?GPU:", re.IGNORECASE)
_DEVICE_NAME = re.compile(r"^(device|device_map)$")
_DTYPES = re.compile(
    r"^torch\.(float|double|half|bfloat|int|long|short|uint|bool|complex|channels_last|contiguous)\w*$"
)


def may_use_device(script: Module) -> bool:
    """Whether the script, or a project module that it imports, may move something to a device; true if in doubt."""
    found = script.loader.cached(
        "touches a device",
        script.unit,
        lambda: any(touches_device(module) for module in local_modules(script)),
    )
    return found or len(local_units(script)) >= MAX_MODULES


def touches_device(module: Module) -> bool:
    """Whether the code of one module may move something to a device."""
    if calls_named(module, "cuda") or any(not _only_converts(call) for call in calls_named(module, "to")):
        return True
    named = find_uses(module, "name", "call")
    if any(_CUDA.search(item.text) and not _NO_PLACEMENT.search(item.text) for item in named):
        return True
    return (
        uses(module, _MANAGERS, "name", "call")
        or uses(module, _DEVICE_TEXT, "string")
        or uses(module, _DEVICE_NAME, "keyword", "attribute")
        or any(
            isinstance(argument, ast.Name) and argument.id == "device"
            for call in all_calls(module)
            for argument in call.node.args
        )
    )


def _only_converts(call: Call) -> bool:
    """Whether `.to(torch.float16)` changes the type, not the device."""
    given = [*call.node.args, *call.keywords.values()]
    return bool(given) and all(_DTYPES.match(call.module.qualified(argument) or "") for argument in given)
