"""An instance looks at the state of its GPUs before it downloads anything, through a stub of NVML."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ec2_host_jobs import HostJobs
from support.nvml_stub import Scenario, build_library
from support.simulated_instance import SimulatedInstance

pytestmark = pytest.mark.slow


def test_memory_errors_fail_the_run_before_the_downloads(jobs: HostJobs, tmp_path: Path) -> None:
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0).health(0, ecc_volatile=3, ecc_aggregate=3).at(0)
    scenario.write()
    job = jobs.new("print('hello')")
    environment = scenario.environment(build_library(tmp_path))
    with SimulatedInstance(tmp_path / "instance", job, environment=environment) as instance:
        instance.wait_until_off()
    assert job.end["status"] == "Failed"
    assert "D601: GPU 0 (NVIDIA A10G) has had 3 uncorrectable" in job.end["failure_reason"]
    assert "it gets another instance" in job.end["failure_reason"]
    assert [finding["code"] for finding in job.end["findings"]] == ["D601"]
    assert "gpuproof: Downloading" not in instance.console


def test_a_warning_is_in_the_log_and_among_the_notes(jobs: HostJobs, tmp_path: Path) -> None:
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0, memory_mib=11000).at(0)
    scenario.write()
    job = jobs.new("print('hello')", gpu_memory=22888 << 20)
    environment = scenario.environment(build_library(tmp_path))
    with SimulatedInstance(tmp_path / "instance", job, environment=environment) as instance:
        instance.wait_until_off()
    assert job.end["status"] == "Completed", job.end
    (note,) = [note for note in job.end["notes"] if note.startswith("D703: GPU 0 has 10.7 GiB")]
    assert note in jobs.output(job)
    boot = job.report("boot.json")
    assert boot is not None
    assert [finding["code"] for finding in boot["findings"]] == ["D703"]
