"""PyTorch builds of the catalogue, installed beside an A10G."""

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.tables import Tables
from gpuproof.doctor.checks.frameworks.builds import InstalledBuild
from gpuproof.doctor.checks.frameworks.reading import FrameworkStack
from gpuproof.gpu.cuda import CudaDevice, CudaReading
from gpuproof.gpu.framework_probe import FrameworkReading, Packages

CATALOGUE = Catalogue(Tables())
A10G = CudaDevice(0, "NVIDIA A10G", 23_827_054_592, (8, 6))


def build(
    version: str,
    *,
    cuda: str | None = None,
    reported: FrameworkReading | None = None,
    only_framework: bool = True,
):
    row = CATALOGUE.build(f"torch=={version}")
    assert row is not None
    return InstalledBuild(
        "torch", version, False, cuda or row.cuda, row.cudnn, row.architectures, row, reported, only_framework
    )


def stack(
    *builds: InstalledBuild, cuda: tuple[int, int] | None = (13, 0), driver: str = "580.95.05", device=A10G
):
    packages = Packages(arch="x86_64", versions={"torch": "2.11.0"})
    reading = CudaReading(version=cuda, init=0, devices=(device,))
    return FrameworkStack(builds, packages, reading, driver, 1, CATALOGUE)
