"""`emit()`, with which a probe prints its records.

`gpuproof.gpu.probe_process` registers this module in the probe's process under its own name, because the user's interpreter
may not have GPUproof. Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import json
from typing import Any

MARK = "\x1egpuproof "
"""Prefix of every record; other output of the process is ignored."""


def emit(kind: str, **fields: Any) -> None:
    """Print one record, at once, so that it is not lost if the process dies."""
    print(MARK + json.dumps({"kind": kind, **fields}), flush=True)
