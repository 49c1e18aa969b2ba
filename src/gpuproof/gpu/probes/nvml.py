"""Probe, for GPUproof's own interpreter: what NVML says of the driver and the GPUs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from gpuproof.gpu.nvml import Nvml, NvmlUnavailable


def tell(kind: str, **facts: Any) -> None:
    print("\x1egpuproof " + json.dumps({"kind": kind, **facts}), flush=True)


def main() -> None:
    tell("step", name="nvmlInit")
    try:
        nvml = Nvml.open()
    except NvmlUnavailable as error:
        tell("nvml", problem=error.reason, code=error.code)
        return
    with nvml:
        gpus = nvml.gpus()
        lost = {gpu.index: nvml.read(gpu.index).error for gpu in gpus if gpu.name is None}
        tell("nvml", driver=nvml.driver_version(), gpus=[asdict(gpu) for gpu in gpus], lost=lost)


if __name__ == "__main__":
    main()
