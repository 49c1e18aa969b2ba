"""Device files of the GPUs."""

from dataclasses import replace

from gpuproof.doctor.checks.hardware import devices
from gpuproof.findings import Severity
from gpuproof.gpu.driver import DriverFiles, PciGpu


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


def test_fewer_device_files_than_gpus_are_reported_on_a_host_and_not_in_a_container() -> None:
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
