"""What several checks say in the same words."""

from __future__ import annotations

from gpuproof.doctor.tables import table
from gpuproof.findings import Location
from gpuproof.gpu.driver import PciGpu

START_WITH_GPUS = "Start the container with its GPUs: docker run --gpus all (needs the NVIDIA Container Toolkit on the host)."


def pci_model(gpu: PciGpu) -> str | None:
    """The catalogue's name of a GPU on the bus; `None` for one that AWS does not have."""
    return next((row["gpu"] for row in table("stack/pci_gpus") if row["device_id"] == gpu.device_id), None)


def pci_name(gpu: PciGpu) -> str:
    """The same for a person: its model, or its number."""
    return pci_model(gpu) or f"NVIDIA device {gpu.device_id}"


def on_gpu(index: int, name: str | None) -> Location:
    """A finding's place: `GPU 0 (NVIDIA A10G)`."""
    return Location(device=f"GPU {index} ({name})" if name else f"GPU {index}")
