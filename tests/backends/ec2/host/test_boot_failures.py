"""Whatever fails on an instance, it is powered off, and the reason is on S3 or, without a network, on the console."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.ec2_host_jobs import HostJobs
from support.simulated_instance import SimulatedInstance

pytestmark = pytest.mark.slow

WAIT = "import time; time.sleep(600)"
# Ends or stops the host's program, as the kernel does when memory runs out.
SIGNAL = """
import os, pathlib, signal, time
for process in pathlib.Path("/proc").glob("[0-9]*"):
    if b"--ec2-host" in (process / "cmdline").read_bytes():
        os.kill(int(process.name), signal.{name})
time.sleep(600)
"""


def test_a_failing_script_fails_the_run_with_its_error(jobs: HostJobs, tmp_path: Path) -> None:
    script = "print('started', open('/run/gpuproof/started').read(), flush=True); raise ValueError('no data')"
    job = jobs.new(script)
    with SimulatedInstance(tmp_path, job) as instance:
        instance.wait_until_off()
    end = job.end
    assert (end["status"], end["exit_code"]) == ("Failed", 1)
    assert end["failure_reason"].startswith("AlgorithmError: ExecuteUserScriptError:")
    assert "ValueError: no data" in end["failure_reason"]
    assert "ValueError: no data" in jobs.output(job)
    # Since when `max_duration` counts, for the program.
    assert re.search(r"^started \d+$", jobs.output(job), re.MULTILINE)
    assert jobs.get(f"{job.layout.output}{job.layout.run_id}/output/model.tar.gz") is None


@pytest.mark.parametrize(
    ("signal", "limits", "reason"),
    [
        ("SIGKILL", {}, "the program on the instance was killed"),
        ("SIGSTOP", {"silence": 8.0}, "the program on the instance gave no sign of life for 8 seconds"),
        ("SIGSTOP", {"max_duration": 15.0}, "the instance reached its limit of 15 seconds"),
    ],
)
def test_an_instance_whose_program_is_killed_or_hangs_is_powered_off(
    signal: str, limits: dict[str, float], reason: str, jobs: HostJobs, tmp_path: Path
) -> None:
    job = jobs.new(SIGNAL.format(name=signal), **limits)
    # The program would stop the job before its time is over.
    script = job.user_data.replace('"max_duration":15.0', '"max_duration":600.0')
    with SimulatedInstance(tmp_path, job, script=script) as instance:
        instance.wait_until_off()
    assert (job.end["status"], job.end["failure_reason"]) == ("Failed", reason)


def test_a_job_is_stopped_in_time_for_its_uploads(jobs: HostJobs, tmp_path: Path) -> None:
    job = jobs.new(
        "import pathlib, time\npathlib.Path('/opt/ml/model/part').touch()\ntime.sleep(600)",
        max_duration=200.0,
    )
    # Nine tenths of the time have passed.
    script = job.user_data.replace('"max_duration":200.0', '"max_duration":10.0')
    with SimulatedInstance(tmp_path, job, script=script) as instance:
        instance.wait_until_off()
    assert (job.end["status"], job.end["secondary_status"]) == ("Stopped", "MaxRuntimeExceeded")
    if job.end["script_started"] is not None:
        model = job.archive(f"{job.layout.output}{job.layout.run_id}/output/model.tar.gz")
        # It may just have been started.
        assert list(model) in ([], ["part"])


def test_a_full_disk_ends_the_job_and_is_reported(jobs: HostJobs, tmp_path: Path) -> None:
    job = jobs.new(WAIT)
    with SimulatedInstance(tmp_path / "1", job, small_disk_bytes=64 << 10) as instance:
        instance.wait_until_off()
    assert job.end["status"] == "Failed"
    assert "No space left on device" in job.end["failure_reason"]
    # Or it becomes full while the script runs.
    job = jobs.new(
        "with open('/opt/ml/model/weights', 'wb') as file:\n    while True: file.write(b'0123456789' * 100000)"
    )
    with SimulatedInstance(tmp_path / "2", job, small_disk_bytes=32 << 20) as instance:
        instance.wait_until_off()
    assert job.end["status"] == "Failed"
    assert "No space left on device" in job.end["failure_reason"]
    assert "No space left on device" in jobs.output(job)
    assert any("uploaded as a folder" in note for note in job.end["notes"])
    assert jobs.keys(f"{job.layout.output}{job.layout.run_id}/output/model/")


@pytest.mark.parametrize(
    ("nvidia_smi", "reason"),
    [
        (
            "#!/bin/sh\necho 'Failed to initialize NVML: mismatch'; exit 18",
            "the NVIDIA driver did not answer within 1 s: nvidia-smi printed Failed to initialize NVML: mismatch",
        ),
        (
            "#!/bin/sh\necho 'GPU 0: NVIDIA A10G'",
            "the NVIDIA driver sees 1 of the instance type's 4 GPUs: nvidia-smi printed GPU 0: NVIDIA A10G",
        ),
    ],
)
def test_an_instance_whose_driver_is_unusable_does_not_start_the_job(
    nvidia_smi: str, reason: str, jobs: HostJobs, tmp_path: Path
) -> None:
    job = jobs.new(WAIT, driver_wait=1.0, gpus=4)
    with SimulatedInstance(tmp_path, job, nvidia_smi=nvidia_smi) as instance:
        instance.wait_until_off()
    assert (job.end["status"], job.end["failure_reason"]) == ("Failed", reason)
    assert job.end["script_started"] is None
    assert jobs.output(job) == f"gpuproof-agent: {reason}"


def test_an_input_that_does_not_exist_is_named(jobs: HostJobs, tmp_path: Path) -> None:
    nowhere = f"s3://{jobs.bucket}/nowhere"
    job = jobs.new(WAIT, inputs={"input/data/training": nowhere})
    with SimulatedInstance(tmp_path, job) as instance:
        instance.wait_until_off()
    assert job.end["failure_reason"] == f"ClientError: Data download failed: no S3 object matches {nowhere}"
