"""Detects whether a script may use several GPUs, and whether it trains a model."""

from __future__ import annotations

import re

from gpuproof.check.analysis.call import calls_named
from gpuproof.check.analysis.local_imports import MAX_MODULES, local_modules, local_units
from gpuproof.check.analysis.module import Module

_MULTI_GPU_WORDS = re.compile(
    r"""
    DistributedDataParallel | \bDDP\b | DataParallel | FullyShardedDataParallel | \bFSDP\b | fully_shard
    | torch\.distributed | torch\.multiprocessing | \bdist\.init_process_group | init_process_group | torchrun
    | tf\.distribute | tensorflow\.distribute | MirroredStrategy | distribute\.\w*Strategy | keras\.distribution
    | keras\.utils\.multi_gpu_model | \bhorovod\b | \bhvd\b | smdistributed | deepspeed | accelerat | lightning
    | device_map | tensor_parallel | device_ids | \bgpus\s*= | num_gpus | device_count | nccl | multiprocessing
    | cuda:\{ | cuda:[1-9] | GPU:[1-9] | GPU:\{ | subprocess | os\.system | os\.exec | local_rank | LOCAL_RANK | xla
    """,
    re.VERBOSE,
)
"""Words that, anywhere in a script and even in a comment, indicate that it may use more than one GPU."""


def may_use_several_gpus(script: Module) -> bool:
    """Whether the script, or a project module that it imports, may use more than one GPU; true if in doubt."""
    units = local_units(script)
    found = script.loader.cached(
        "uses several GPUs", script.unit, lambda: any(_MULTI_GPU_WORDS.search(unit.source) for unit in units)
    )
    return found or len(units) >= MAX_MODULES


def trains_model(script: Module) -> bool:
    """Whether the script trains with `backward()` of PyTorch, `fit()` of Keras, or a gradient tape."""
    modules = local_modules(script)
    for module in modules:
        if calls_named(module, "backward") and any(one.imports("torch") for one in modules):
            return True
        keras = any(one.imports("tensorflow", "keras") for one in modules)
        if keras and calls_named(module, "fit", "train_on_batch", "apply_gradients", "fit_generator"):
            return True
    return False
