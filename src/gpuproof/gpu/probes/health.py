"""Probe, for GPUproof's own interpreter: how each GPU is, what it does now, and who uses it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from gpuproof.gpu.health import read_health
from gpuproof.gpu.nvml import Nvml, NvmlUnavailable


def tell(kind: str, **facts: Any) -> None:
    print("\x1egpuproof " + json.dumps({"kind": kind, **facts}), flush=True)


def main() -> None:
    tell("step", name="nvmlInit")
    try:
        nvml = Nvml.open()
    except NvmlUnavailable as error:
        tell("problem", words=error.reason)
        return
    import pynvml  # Nvml.open has just imported it

    with nvml:
        tell("driver", version=nvml.driver_version())
        for info in nvml.gpus():
            tell("step", name=f"looking at GPU {info.index}")
            reading = nvml.read(info.index)
            health = read_health(pynvml, info.index)
            tell("gpu", info=asdict(info), reading=asdict(reading), health=asdict(health))


if __name__ == "__main__":
    main()
