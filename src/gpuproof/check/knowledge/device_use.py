"""Detects whether a script may use a GPU."""

from __future__ import annotations

import re

from gpuproof.check.analysis.local_imports import MAX_MODULES, local_units
from gpuproof.check.analysis.module import Module

_DEVICE_WORDS = re.compile(
    r"""
    \bcuda\b | \.cuda\( | \.to\( | \bdevice\b | set_default_device | Accelerator | accelerat | lightning | \bTrainer\b
    | deepspeed | fabric | xla | horovod | \bhvd\b | smdistributed | ignite | fastai | \bskorch\b | \bmps\b | neuron
    """,
    re.VERBOSE,
)


def may_use_device(script: Module) -> bool:
    """Whether the script, or a project module that it imports, may move something to a device; true if in doubt."""
    units = local_units(script)
    found = script.loader.cached(
        "touches a device", script.unit, lambda: any(_DEVICE_WORDS.search(unit.source) for unit in units)
    )
    return found or len(units) >= MAX_MODULES
