"""The pure `evaluate` functions, for what the scenarios do not cover."""

from dataclasses import replace

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.tables import Tables
from gpuproof.doctor.checks.compute import framework_ops
from gpuproof.doctor.checks.compute.reading import ComputeReading, Operation
from gpuproof.doctor.checks.driver import cuda_init
from gpuproof.doctor.checks.frameworks import build_vs_driver, gpu_architectures
from gpuproof.doctor.checks.frameworks.builds import InstalledBuild, is_cpu_build
from gpuproof.doctor.checks.frameworks.reading import FrameworkStack, find_gpu
from gpuproof.doctor.checks.hardware import devices
from gpuproof.doctor.checks.libraries import cuda_libraries
from gpuproof.doctor.tables import FOLDER, table
from gpuproof.findings import Severity
from gpuproof.gpu.cuda import CudaDevice, CudaReading, Library, NvmlReading
from gpuproof.gpu.driver import DriverFiles, PciGpu
from gpuproof.gpu.framework_probe import FrameworkDevice, FrameworkReading, Packages

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


def test_device_files_that_may_not_be_opened_are_an_error() -> None:
    files = DriverFiles(
        pci=(PciGpu("0000:00:1e.0", "0x2237", "nvidia"),),
        device_files=(0,),
        forbidden=("/dev/nvidia0",),
        loaded=True,
    )
    (finding,) = devices.evaluate(devices.Reading(files))
    assert (finding.code, finding.severity) == ("D104", Severity.ERROR)
    assert "group" in (finding.remedy or "")


def test_fewer_device_files_than_gpus_are_told_on_a_host_and_not_in_a_container() -> None:
    gpus = tuple(PciGpu(f"0000:00:1{n}.0", "0x2237", "nvidia") for n in "bcde")
    files = DriverFiles(pci=gpus, device_files=(0, 1), loaded=True)
    assert [finding.code for finding in devices.evaluate(devices.Reading(files))] == ["D103"]
    assert not list(devices.evaluate(devices.Reading(replace(files, container=True))))


def test_a_gpu_that_was_handed_to_a_virtual_machine_is_not_missed() -> None:
    gpus = (PciGpu("0000:00:1d.0", "0x2237", "nvidia"), PciGpu("0000:00:1e.0", "0x2237", "vfio-pci"))
    files = DriverFiles(pci=gpus, device_files=(0,), loaded=True)
    assert not list(devices.evaluate(devices.Reading(files)))


def test_gpus_that_answer_without_a_bus_are_there() -> None:
    assert not list(devices.evaluate(devices.Reading(DriverFiles(pci=None), nvml_gpus=1)))


@pytest.mark.parametrize("code", [int(row["code"]) for row in table("stack/cuda_errors")])
def test_every_error_of_cuinit_has_its_cause_and_remedy(code: int) -> None:
    reading = cuda_init.Reading(
        CudaReading(version=(13, 0), init=code), NvmlReading(), DriverFiles(loaded=True)
    )
    (finding,) = cuda_init.evaluate(reading)
    row = next(row for row in table("stack/cuda_errors") if int(row["code"]) == code)
    assert row["name"] in finding.message
    assert finding.remedy == row["remedy"]


def test_an_error_that_nobody_knows_is_told_by_its_number() -> None:
    reading = cuda_init.Reading(CudaReading(init=12345), NvmlReading(), DriverFiles(loaded=True))
    (finding,) = cuda_init.evaluate(reading)
    assert "12345" in finding.message


def test_rows_of_the_tables_name_their_source() -> None:
    sources = {row["source"] for row in table("stack/sources")}
    for path in (FOLDER / "stack").glob("*.csv"):
        if path.stem != "sources":
            assert {row["source"] for row in table(f"stack/{path.stem}")} <= sources, path.name


def test_every_pci_id_means_a_gpu_of_the_catalogue() -> None:
    assert {row["gpu"] for row in table("stack/pci_gpus")} <= set(CATALOGUE.tables.gpus)


@pytest.mark.parametrize(
    ("version", "cuda", "old"),
    [
        ("2.11", (12, 4), True),
        ("2.11", (13, 0), False),
        ("2.10", (12, 0), False),
        ("2.10", (11, 8), True),
        ("2.3+cu118", (11, 4), False),
        ("2.3+cu118", (12, 8), False),
    ],
)
def test_a_driver_serves_every_cuda_of_its_major_version_and_older_ones(
    version: str, cuda: tuple[int, int], old: bool
) -> None:
    one = build(version)
    assert build_vs_driver.is_driver_too_old(one, stack(one, cuda=cuda)) is old


@pytest.mark.parametrize(("driver", "old"), [("550.163.01", True), ("580.95.05", False)])
def test_without_libcudas_word_the_drivers_version_decides(driver: str, old: bool) -> None:
    one = build("2.11")
    assert build_vs_driver.is_driver_too_old(one, stack(one, cuda=None, driver=driver)) is old


def test_what_works_is_right_whatever_the_tables_say() -> None:
    reported = FrameworkReading(
        "torch", "2.11.0", "13.0", devices=(FrameworkDevice(0, "NVIDIA A10G", (8, 6)),)
    )
    one = build("2.11", reported=reported)
    assert not build_vs_driver.is_driver_too_old(one, stack(one, cuda=(12, 4)))


def test_beside_another_framework_a_build_that_does_not_fit_is_a_warning() -> None:
    one = build("2.11", only_framework=False)
    (finding,) = build_vs_driver.evaluate(stack(one, cuda=(12, 4)))
    assert finding.severity is Severity.WARNING


def test_a_gpu_that_the_catalogue_does_not_know_is_judged_by_its_number() -> None:
    one = build("2.11")
    old = CudaDevice(0, "NVIDIA GeForce GTX 1080", 8 << 30, (6, 1))
    new = CudaDevice(0, "NVIDIA GeForce RTX 4090", 24 << 30, (8, 9))
    assert [finding.code for finding in gpu_architectures.evaluate(stack(one, device=old))] == ["D411"]
    assert not list(gpu_architectures.evaluate(stack(one, device=new)))


def test_a_build_whose_kernels_nobody_has_read_is_not_judged() -> None:
    one = replace(build("2.11"), architectures=())
    assert not list(gpu_architectures.evaluate(stack(one, device=CudaDevice(0, "NVIDIA A10G", 1, (3, 0)))))


def test_each_model_is_told_once() -> None:
    one = build("2.11")
    four = tuple(CudaDevice(index, "Tesla V100-SXM2-16GB", 16 << 30, (7, 0)) for index in range(4))
    target = stack(one)
    target = replace(target, cuda=replace(target.cuda, devices=four))
    assert [str(found.location) for found in gpu_architectures.evaluate(target)] == [
        "GPU 0 (Tesla V100-SXM2-16GB)"
    ]


def test_a_name_that_means_several_models_is_settled_by_the_memory() -> None:
    model = find_gpu(CATALOGUE, CudaDevice(0, "NVIDIA A100", 80 << 30, (8, 0)))
    assert model is not None
    assert model.name == "A100-80GB"


@pytest.mark.parametrize(
    ("name", "versions", "cpu"),
    [
        ("torch", {"torch": "2.6.0+cpu"}, True),
        ("torch", {"torch": "2.6.0+cu124"}, False),
        ("tensorflow", {"tensorflow-cpu": "2.21.0"}, True),
        ("tensorflow", {"tensorflow-cpu": "2.21.0", "tensorflow": "2.21.0"}, None),
        ("torch", {"torch": "2.99.0"}, None),
    ],
)
def test_what_a_name_alone_tells_of_a_build(name: str, versions: dict[str, str], cpu: bool | None) -> None:
    assert is_cpu_build(name, Packages(arch="x86_64", versions=versions), None) is cpu


@pytest.mark.parametrize(
    ("deviation", "right"), [(0.0, True), (1e-4, True), (2e-4, False), (float("nan"), False), (None, False)]
)
def test_an_answer_is_right_within_its_tolerance_and_not_a_number_never(
    deviation: float | None, right: bool
) -> None:
    assert Operation(0, "matmul", "float32", 1e-4, "cuda:0", deviation).right is right


def test_the_result_must_be_on_the_gpu_that_was_asked() -> None:
    operations = (
        Operation(1, "matmul", "float32", 1e-4, "cuda:0", 0.0),
        Operation(1, "convolution", "float32", 1e-4, "cuda:1", 0.0),
    )
    findings = list(framework_ops.evaluate(ComputeReading("PyTorch 2.11.0", operations)))
    assert [(one.code, str(one.location)) for one in findings] == [("D504", "GPU 1")]


def test_a_newer_cudnn_of_the_same_major_version_is_fine() -> None:
    need = cuda_libraries.RequiredLibraries("tensorflow", "2.21.0", "12.5", "9.3", ("libcudnn.so.9",))

    def codes(version: int) -> list[str]:
        found = {"libcudnn.so.9": Library("libcudnn.so.9", "libcudnn.so.9", version)}
        return [one.code for one in cuda_libraries.evaluate(cuda_libraries.Reading((need,), found))]

    assert codes(91002) == []
    assert codes(90300) == []
    assert codes(90200) == ["D305"]
