"""Probe for GPUproof's interpreter: identity, activity, processes and health of each GPU."""

from __future__ import annotations

from dataclasses import asdict

from gpuproof.gpu.health import read_health
from gpuproof.gpu.nvml import Nvml, NvmlUnavailable
from gpuproof.gpu.probe_record import emit


def main() -> None:
    emit("step", name="nvmlInit")
    try:
        nvml = Nvml.open()
    except NvmlUnavailable as error:
        emit("problem", words=error.reason)
        return
    import pynvml  # Nvml.open has just imported it

    with nvml:
        emit("driver", version=nvml.driver_version())
        for info in nvml.gpus():
            emit("step", name=f"reading GPU {info.index}")
            reading = nvml.read(info.index)
            health = read_health(pynvml, info.index)
            emit("gpu", info=asdict(info), reading=asdict(reading), health=asdict(health))


if __name__ == "__main__":
    main()
