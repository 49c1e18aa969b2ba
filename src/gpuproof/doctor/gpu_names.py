"""How findings name a GPU: by its model on the PCI bus, or by its index."""

from __future__ import annotations

from gpuproof.doctor.tables import table
from gpuproof.findings import Location
from gpuproof.gpu.driver import PciGpu


def pci_gpu_model(gpu: PciGpu) -> str | None:
    """The catalogue's name of a GPU on the PCI bus; `None` for one that AWS does not offer."""
    return next((row["gpu"] for row in table("stack/pci_gpus") if row["device_id"] == gpu.device_id), None)


def pci_gpu_name(gpu: PciGpu) -> str:
    """Name of a GPU on the PCI bus for people: its model, or else its device ID."""
    return pci_gpu_model(gpu) or f"NVIDIA device {gpu.device_id}"


def gpu_location(index: int, name: str | None) -> Location:
    """Location of a finding: `GPU 0 (NVIDIA A10G)`."""
    return Location(device=f"GPU {index} ({name})" if name else f"GPU {index}")
