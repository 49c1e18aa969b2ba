"""The condition of an instance's GPUs before the job, as a stub of NVML shows it to a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.agent.ec2_host.setup.gpu_health import GpuUnhealthy, raise_for, read_findings
from gpuproof.findings import Finding, Severity
from support.nvml_stub import Scenario, build_library

Parameters = Callable[..., HostParameters]
Read = Callable[[Scenario], list[Finding]]


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return Scenario(tmp_path / "gpus.txt")


@pytest.fixture
def kernel_log(tmp_path: Path) -> Path:
    """The kernel log of the instance; its other files are this machine's."""
    root = tmp_path / "root"
    (root / "dev").mkdir(parents=True)
    (root / "proc").symlink_to("/proc")
    (root / "sys").symlink_to("/sys")
    return root / "dev/kmsg"


@pytest.fixture
def read(tmp_path: Path, parameters: Parameters, kernel_log: Path) -> Read:
    library = build_library(tmp_path)

    def findings(scenario: Scenario) -> list[Finding]:
        scenario.write()
        known = parameters(gpus=1, gpu_name="A10G", gpu_memory=22888 << 20)
        return read_findings(known, {**os.environ, **scenario.environment(library)}, kernel_log.parents[1])

    return findings


def test_a_healthy_gpu_has_no_findings(scenario: Scenario, read: Read) -> None:
    found = read(scenario.gpu(0).health(0, persistence=1, ecc=1, ecc_volatile=0, ecc_aggregate=0).at(0))
    assert found == []
    raise_for(found)


def test_memory_errors_fail_the_run_which_may_be_repeated(scenario: Scenario, read: Read) -> None:
    found = read(scenario.gpu(0).health(0, ecc_volatile=2, ecc_aggregate=2).at(0))
    assert [finding.code for finding in found] == ["D601"]
    with pytest.raises(
        GpuUnhealthy, match=r"D601: GPU 0 .* 2 uncorrectable memory errors.* another instance\."
    ):
        raise_for(found)


def test_an_xid_since_the_start_fails_the_run_which_may_be_repeated(
    scenario: Scenario, read: Read, kernel_log: Path
) -> None:
    kernel_log.write_text(
        "6,1,5000000,-;nvidia: loading\n"
        "3,2,9000000,-;NVRM: Xid (PCI:0000:00:1e): 79, pid='<unknown>', GPU has fallen off the bus.\n"
    )
    (finding,) = read(scenario.gpu(0).at(0))
    assert (finding.code, finding.severity) == ("D610", Severity.ERROR)
    with pytest.raises(GpuUnhealthy, match=r"D610: .* Xid 79 since boot.* another instance\."):
        raise_for([finding])


def test_mig_without_instances_fails_the_run_and_blames_the_ami(scenario: Scenario, read: Read) -> None:
    found = read(scenario.gpu(0, mig=True).health(0, mig=1, mig_pending=1, mig_instances=0).at(0))
    assert "D620" in [finding.code for finding in found]
    with pytest.raises(GpuUnhealthy, match=r"D620: .*ec2: ami"):
        raise_for(found)


def test_less_memory_than_the_type_promises_is_a_warning(scenario: Scenario, read: Read) -> None:
    (finding,) = read(scenario.gpu(0, memory_mib=11000).at(0))
    assert (finding.code, finding.severity) == ("D703", Severity.WARNING)
    raise_for([finding])


def test_the_worst_finding_comes_first(scenario: Scenario, read: Read) -> None:
    found = read(scenario.gpu(0, memory_mib=11000).health(0, ecc_volatile=1, persistence=0).at(0))
    assert [finding.severity for finding in found] == [Severity.ERROR, Severity.WARNING, Severity.NOTE]


def test_without_nvml_there_are_no_findings(tmp_path: Path, parameters: Parameters) -> None:
    assert read_findings(parameters(gpus=1), {"PATH": os.defpath, "LD_LIBRARY_PATH": str(tmp_path)}) == []
