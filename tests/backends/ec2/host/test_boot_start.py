"""An instance on which the job cannot even start is powered off: broken user data, no network, a wrong clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.clock_shim import build_clock_shim
from support.ec2_host_jobs import HostJobs
from support.simulated_instance import SimulatedInstance

pytestmark = pytest.mark.slow

ONE_ATTEMPT = {"AWS_MAX_ATTEMPTS": "1"}
WAIT = "import time; time.sleep(600)"


def cut_after_watchdog(script: str) -> str:
    """User data of which only the beginning has arrived."""
    return script[: script.index("why=")]


def with_open_quote(script: str) -> str:
    """User data with an error of syntax after the watchdog."""
    return script.replace("now_s() {", 'broken="now_s() {')


def without_program(script: str) -> str:
    """User data that waits for something and never starts the program."""
    return script.replace("now_s\nend=", "sleep 600\nend=")


@pytest.mark.parametrize("damage", [cut_after_watchdog, with_open_quote, without_program])
def test_an_instance_with_broken_user_data_is_powered_off(
    damage: Callable[[str], str], jobs: HostJobs, tmp_path: Path
) -> None:
    job = jobs.new(WAIT, silence=3.0)
    script = damage(job.user_data)
    assert script != job.user_data
    with SimulatedInstance(tmp_path, job, script=script) as instance:
        instance.wait_until_off()
    assert job.end["status"] == "Failed"
    early = "user data ended early"
    assert job.end["failure_reason"] in (
        early,
        "the program on the instance gave no sign of life for 3 seconds",
    )


@pytest.mark.parametrize("missing", [False, True])
def test_an_agent_that_is_missing_or_another_one_is_not_run(
    missing: bool, jobs: HostJobs, tmp_path: Path
) -> None:
    job = jobs.new(WAIT, retry_for=1.0)
    if missing:
        jobs.emulator.client("s3").delete_object(Bucket=jobs.bucket, Key=job.layout.agent)
    else:
        jobs.put(job.layout.agent, b"print('something else')")
    with SimulatedInstance(tmp_path, job) as instance:
        instance.wait_until_off()
    reasons = {
        True: "the agent could not be downloaded from S3",
        False: "the agent on S3 is not the one that the run was submitted with",
    }
    assert job.end["failure_reason"] == reasons[missing]
    assert "something else" not in instance.console


def test_an_instance_without_a_network_is_powered_off(jobs: HostJobs, tmp_path: Path) -> None:
    job = jobs.new(WAIT, retry_for=2.0)
    with SimulatedInstance(tmp_path, job, network=False, environment=ONE_ATTEMPT) as instance:
        instance.wait_until_off()
    assert "gpuproof: the agent could not be downloaded from S3" in instance.console
    assert "Could not connect to the endpoint URL" in instance.console


def test_an_instance_that_loses_the_network_is_powered_off(jobs: HostJobs, tmp_path: Path) -> None:
    job = jobs.new(
        "import pathlib, time\n"
        "pathlib.Path('/run/simulation/waiting').touch()\n"
        "while not pathlib.Path('/run/simulation/go').exists(): time.sleep(0.1)",
        retry_for=2.0,
    )
    with SimulatedInstance(tmp_path, job, environment=ONE_ATTEMPT) as instance:
        instance.wait_for_file("waiting")
        instance.hosts.close()
        instance.write("go", "")
        instance.wait_until_off()
    assert job.report("end.json") is None
    assert "was not reported: " in instance.console


def test_a_wrong_clock_that_is_set_later_ends_no_job(jobs: HostJobs, tmp_path: Path) -> None:
    library = build_clock_shim(tmp_path, "/run/simulation/offset")
    job = jobs.new("print('hello')", max_duration=3600.0)
    machine = SimulatedInstance(tmp_path / "machine", job, environment={"LD_PRELOAD": str(library)})
    # Ten years: more than max_duration.
    machine.write("offset", "-315360000")
    with machine as instance:
        instance.wait_for("RequestTimeTooSkewed")
        instance.write("offset", "0")
        instance.wait_until_off()
    assert job.end["status"] == "Completed"
