"""Probe for GPUproof's interpreter: watches the GPUs under load until the file in its argument is deleted."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from gpuproof.gpu.health import read_health
from gpuproof.gpu.nvml import Nvml, NvmlUnavailable
from gpuproof.gpu.probe_record import emit

INTERVAL_S = 0.2
BUSY = 50
"""Utilization in percent from which a GPU is under load."""


def main() -> None:
    try:
        nvml = Nvml.open()
    except NvmlUnavailable as error:
        emit("problem", words=error.reason)
        return
    import pynvml  # Nvml.open has just imported it

    running = Path(sys.argv[2])
    throttle: dict[int, set[str]] = {}
    generation: dict[int, int] = {}
    with nvml:
        indexes = [gpu.index for gpu in nvml.gpus()]
        last = False
        while not last:
            # Reads at least once after the start, however short the load is.
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
        emit("load", index=index, throttle=sorted(reasons), generation=generation[index] or None)


if __name__ == "__main__":
    main()
