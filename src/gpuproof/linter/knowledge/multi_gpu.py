"""Detects whether a script may use several GPUs, and whether it trains a model."""

from __future__ import annotations

import re

from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.local_imports import MAX_MODULES, local_modules, local_units
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses

_LIBRARIES = re.compile(
    r"""
    ^\.*(torch\.distributed|torch\.multiprocessing|tensorflow\.distribute|tensorflow\.keras\.distribution|keras\.distribution
        |horovod|smdistributed|deepspeed|accelerate|lightning|pytorch_lightning|lightning_fabric|torch_xla|multiprocessing
        |subprocess|ray|concurrent\.futures\.ProcessPoolExecutor)(\.|$)
    | (^|\.)hvd\.
    """,
    re.VERBOSE,
)
"""Libraries that start processes, connect them, or spread a model over GPUs."""
_CALLS = re.compile(
    r"(^|\.)(\w*DataParallel|DDP|FSDP|fully_shard|init_process_group|\w*Strategy|multi_gpu_model|device_count|num_gpus"
    r"|list_(physical|logical)_devices|Accelerator|parallelize_module|os\.(system|popen|exec\w*|spawn\w*|fork))$"
)
_KEYWORDS = re.compile(
    r"^(device_map|device_ids|gpus|num_gpus|n_gpus|tensor_parallel\w*|tp_size|distribute\w*|devices)$"
)
_ATTRIBUTES = re.compile(r"^(local_rank|num_gpus|n_gpus?|world_size)$")
_TEXTS = re.compile(
    r"LOCAL_RANK|WORLD_SIZE|SM_NUM_GPUS|^nccl$|torchrun|^cuda:([1-9]|$)|GPU:([1-9]|$)|^(--)?(local[_-]rank|n(um)?[_-]gpus?|gpus)$"
)


def may_use_several_gpus(script: Module) -> bool:
    """Whether the script, or a project module that it imports, may use more than one GPU; true if in doubt."""
    found = script.loader.cached(
        "uses several GPUs",
        script.unit,
        lambda: any(_may_use_several(module) for module in local_modules(script)),
    )
    return found or len(local_units(script)) >= MAX_MODULES


def _may_use_several(module: Module) -> bool:
    return (
        uses(module, _LIBRARIES, "name", "call")
        or uses(module, _CALLS, "name", "call")
        or uses(module, _KEYWORDS, "keyword")
        or uses(module, _ATTRIBUTES, "attribute")
        or uses(module, _TEXTS, "string")
    )


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
