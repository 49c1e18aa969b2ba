"""Probe for GPUproof's interpreter: driver version and GPUs according to NVML."""

from __future__ import annotations

from dataclasses import asdict

from gpuproof.gpu.nvml import Nvml, NvmlUnavailable
from gpuproof.gpu.probe_record import emit


def main() -> None:
    emit("step", name="nvmlInit")
    try:
        nvml = Nvml.open()
    except NvmlUnavailable as error:
        emit("nvml", problem=error.reason, code=error.code)
        return
    with nvml:
        gpus = nvml.gpus()
        lost = {gpu.index: nvml.read(gpu.index).error for gpu in gpus if gpu.name is None}
        emit("nvml", driver=nvml.driver_version(), gpus=[asdict(gpu) for gpu in gpus], lost=lost)


if __name__ == "__main__":
    main()
