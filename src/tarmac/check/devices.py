"""Whether a script puts anything on a GPU."""

from __future__ import annotations

import re
from functools import lru_cache

from tarmac.check.module import Module
from tarmac.check.reach import local_modules

_TOUCHES = re.compile(
    r"""
    \bcuda\b | \.cuda\( | \.to\( | \bdevice\b | set_default_device | Accelerator | accelerat | lightning | \bTrainer\b
    | deepspeed | fabric | xla | horovod | \bhvd\b | smdistributed | ignite | fastai | \bskorch\b | \bmps\b | neuron
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=512)
def touches_device(script: Module) -> bool:
    """Whether the script, or a module of its project that it imports, may put something on a device. True in doubt."""
    return any(_TOUCHES.search(module.unit.source) for module in local_modules(script))
