"""Instances on EC2 that never report anything: a run that is followed, or stopped, ends them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gpuproof.backends.base import Notice
from gpuproof.backends.ec2.requests.launch_objects import read_launch
from gpuproof.backends.ec2.run import EC2Run
from gpuproof.backends.ec2.tracking.silence import SilenceLimits, silence_notice

pytestmark = pytest.mark.slow

PATIENCE = SilenceLimits(900.0)


def late(seconds: float) -> Any:
    """A clock that is so many seconds fast."""
    return lambda: time.time() + seconds


def notices(run: EC2Run) -> list[str]:
    return [event.text for event in run.follow() if isinstance(event, Notice)]


def test_a_followed_run_ends_an_instance_that_has_reported_nothing(ec2: Any) -> None:
    launch = ec2.launch()
    ec2.emulator.forget_requests()
    run = ec2.look_at(launch, silence_limits=PATIENCE, now=late(1000))
    (notice,) = notices(run)
    assert f"{launch.instances[0]} has reported nothing in 16 min" in notice
    assert f"gpuproof explain {launch.run_id}" in notice
    assert "GetConsoleOutput" in ec2.emulator.operations("ec2")
    assert ec2.states(launch) == ["terminated"]
    assert (run.record.status, run.record.document["failure_code"]) == ("Failed", "NoSignOfLife")
    assert "it had reported nothing in 16 min" in (run.record.reason or "")


def test_its_reason_is_known_on_other_machines_and_when_ec2_has_forgotten_the_instance(ec2: Any) -> None:
    launch = ec2.launch()
    ec2.look_at(launch, silence_limits=PATIENCE, now=late(1000)).wait()
    (listed,) = [item for item in ec2.store().records() if item.id == launch.run_id]
    assert "it had reported nothing" in (listed.reason or "")
    stored = read_launch(ec2.aws, launch.bucket, launch.run_id)
    assert stored is not None

    class Forgetful(EC2Run):
        def _describe_instances(self) -> dict[str, dict[str, Any]]:
            return {}

    record = Forgetful(ec2.aws, stored, now=late(7200)).record
    assert (record.status, record.document["failure_code"]) == ("Failed", "NoSignOfLife")
    assert record.ended == pytest.approx(stored.silent)


@pytest.mark.parametrize("phase", ["Starting", "Training"])
def test_an_instance_that_has_reported_a_phase_is_left_alone(ec2: Any, phase: str) -> None:
    launch = ec2.launch()
    ec2.boot(launch, phase)
    snapshot = ec2.look_at(launch, silence_limits=PATIENCE, now=late(3000)).describe()
    assert (snapshot.notices, ec2.states(launch)) == ((), ["running"])


def test_an_instance_whose_output_arrives_is_left_alone(ec2: Any) -> None:
    # It may not write to the bucket of the runs, but it works.
    launch = ec2.launch()
    ec2.log(launch, "epoch 1")
    snapshot = ec2.look_at(launch, silence_limits=PATIENCE, now=late(3000)).describe()
    assert (snapshot.notices, ec2.states(launch)) == ((), ["running"])


def test_an_instance_that_boots_is_left_alone(ec2: Any) -> None:
    launch = ec2.launch()
    ec2.look_at(launch, silence_limits=PATIENCE, now=late(800)).describe()
    assert ec2.states(launch) == ["running"]


def test_a_command_that_only_looks_ends_nothing(ec2: Any) -> None:
    launch = ec2.launch()
    record = ec2.look_at(launch, now=late(3000)).record
    assert ec2.states(launch) == ["running"]
    assert any("has reported nothing for 50 minutes" in note for note in record.notes)


def test_an_instance_that_cannot_be_terminated_is_still_billed(ec2: Any) -> None:
    launch = ec2.launch()
    ec2.emulator.faults("access-denied,service=ec2,operation=TerminateInstances")
    with pytest.raises(Exception, match="still running on AWS"):
        notices(ec2.look_at(launch, silence_limits=PATIENCE, now=late(1000)))


def test_without_permission_to_describe_instances_it_is_ended_too(ec2: Any) -> None:
    launch = ec2.launch()
    ec2.emulator.faults("access-denied,service=ec2,operation=DescribeInstances")
    snapshot = ec2.look_at(launch, silence_limits=PATIENCE, now=late(1000)).describe()
    assert len(snapshot.notices) == 1
    ec2.emulator.faults()
    assert ec2.states(launch) == ["terminated"]


class TestStopping:
    def test_a_stop_waits_for_the_host_first(self, ec2: Any) -> None:
        launch = ec2.launch()
        run = ec2.look_at(launch)
        run.stop()
        assert run.describe().record.status == "Stopping"
        assert ec2.states(launch) == ["running"]

    def test_an_instance_that_stays_silent_is_terminated(self, ec2: Any) -> None:
        launch = ec2.launch()
        clock = [time.time()]
        run = ec2.look_at(launch, now=lambda: clock[0])
        run.stop()
        clock[0] += 200
        record = run.wait()
        assert ec2.states(launch) == ["terminated"]
        assert (record.status, record.document["failure_code"]) == ("Stopped", None)
        assert "it could not act on the request to stop" in (record.reason or "")

    def test_a_host_that_reports_in_the_meantime_ends_the_job_itself(self, ec2: Any) -> None:
        launch = ec2.launch()
        clock = [time.time()]
        run = ec2.look_at(launch, now=lambda: clock[0])
        run.stop()
        ec2.boot(launch, "Starting")
        clock[0] += 2000
        assert run.describe().record.status == "Stopping"
        assert ec2.states(launch) == ["running"]


def test_the_notice_has_the_last_lines_of_the_console() -> None:
    lines = [f"line {number}" for number in range(20)]
    text = silence_notice(("i-1",), 900.0, "train-1", lines)
    assert "line 19" in text
    assert "line 9\n" not in text
    assert "its console is empty" in silence_notice(("i-1",), 900.0, "train-1", ())
