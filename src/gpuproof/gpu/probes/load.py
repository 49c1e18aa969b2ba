"""Probe, for GPUproof's own interpreter: how the GPUs are under load, until the file named as its argument is gone."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from gpuproof.gpu.health import read_health
from gpuproof.gpu.nvml import Nvml, NvmlUnavailable

INTERVAL_S = 0.2
BUSY = 50
"""Percent: below, a GPU is not under load."""


def tell(kind: str, **facts: Any) -> None:
    print("\x1egpuproof " + json.dumps({"kind": kind, **facts}), flush=True)


def main() -> None:
    try:
        nvml = Nvml.open()
    except NvmlUnavailable as error:
        tell("problem", words=error.reason)
        return
    import pynvml  # Nvml.open has just imported it

    running = Path(sys.argv[2])
    throttle: dict[int, set[str]] = {}
    generation: dict[int, int] = {}
    with nvml:
        indexes = [gpu.index for gpu in nvml.gpus()]
        last = False
        while not last:
            # However soon it is over, there is a look that was begun after the start.
            last = not running.exists()
            for index in indexes:
                reading = nvml.read(index)
                if (reading.utilization or 0) >= BUSY:
                    throttle.setdefault(index, set()).update(reading.throttle or ())
                    now = read_health(pynvml, index).pcie_generation
                    generation[index] = max(generation.get(index, 0), now or 0)
            if not last:
                time.sleep(INTERVAL_S)
    for index, reasons in throttle.items():
        tell("load", index=index, throttle=sorted(reasons), generation=generation[index] or None)


if __name__ == "__main__":
    main()
