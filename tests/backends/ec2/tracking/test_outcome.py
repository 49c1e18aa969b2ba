"""The end of a run on EC2 whose host left no report, and of runs with several hosts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.ec2.tracking.cost import bill_of, spot_saving
from gpuproof.backends.ec2.tracking.host_reports import HostReport
from gpuproof.backends.ec2.tracking.outcome import outcome_of
from gpuproof.backends.ec2.tracking.records import record_of
from gpuproof.backends.ec2.tracking.state_reason import state_reason, transition_time

NOW = 1_000_000.0


def launch(**fields: Any) -> LaunchRecord:
    given: dict[str, Any] = {
        "run_id": "train-20260501-120000-ab12",
        "job_name": "train",
        "kind": "training",
        "region": "us-east-1",
        "bucket": "b",
        "instance_type": "g5.xlarge",
        "instance_count": 1,
        "spot": False,
        "image": "ami-1",
        "created": NOW - 1000,
        "max_duration": 3600.0,
        "instances": ("i-1",),
        **fields,
    }
    return LaunchRecord(**given)


def instance(state: str = "terminated", code: str = "", **fields: Any) -> dict[str, Any]:
    reason = {"StateReason": {"Code": code, "Message": f"{code}: said"}} if code else {}
    return {"InstanceId": "i-1", "State": {"Name": state}, **reason, **fields}


def end(status: str, ended: float = NOW, **fields: Any) -> HostReport:
    return HostReport(end={"status": status, "secondary_status": status, "ended": ended, **fields})


class TestStateReason:
    @pytest.mark.parametrize(
        ("code", "status", "text"),
        [
            ("Server.SpotInstanceTermination", "Stopped", "its spot instance was reclaimed"),
            ("Client.InstanceInitiatedShutdown", "Failed", "its instance shut down without a report"),
            ("Client.UserInitiatedShutdown", "Stopped", "its instance was terminated by a request"),
            ("Server.InsufficientInstanceCapacity", "Failed", "EC2 had no capacity for its instance"),
        ],
    )
    def test_a_known_code_is_translated(self, code: str, status: str, text: str) -> None:
        reason = state_reason(instance(code=code))
        assert (reason.status, reason.text) == (status, text)

    def test_an_unknown_code_quotes_ec2(self) -> None:
        assert state_reason(instance(code="Server.New")).text.endswith("Server.New: said")

    def test_without_a_code_the_transition_is_quoted(self) -> None:
        found = state_reason(instance(StateTransitionReason="Something happened."))
        assert found.text == "its instance ended without a report: Something happened"
        assert "EC2 gives no reason" in state_reason(instance()).text

    def test_the_time_is_in_the_transition_reason(self) -> None:
        known = {"StateTransitionReason": "User initiated (2026-11-22 10:00:00 GMT)"}
        assert transition_time(known) == datetime(2026, 11, 22, 10, tzinfo=UTC).timestamp()
        assert transition_time({"StateTransitionReason": ""}) is None


class TestWithoutAReport:
    def test_a_reclaimed_spot_instance_is_an_interruption(self) -> None:
        found = outcome_of(launch(), {"i-1": instance(code="Server.SpotInstanceTermination")}, {}, NOW)
        assert (found.status, found.secondary_status, found.interrupted) == ("Stopped", "Interrupted", True)

    def test_a_shutdown_after_a_phase_is_a_failure(self) -> None:
        reports = {"algo-1": HostReport(boot={"phase": "Training", "times": {"Training": NOW - 500}})}
        ended = {"i-1": instance(code="Client.InstanceInitiatedShutdown")}
        record = record_of(launch(), ended, reports, now=NOW)
        assert (record.status, record.started) == ("Failed", NOW - 500)
        assert not any("does not reach S3" in note for note in record.notes)

    def test_a_shutdown_before_any_report_is_probably_the_network(self) -> None:
        ended = {"i-1": instance(code="Client.InstanceInitiatedShutdown")}
        found = outcome_of(launch(), ended, {}, NOW)
        assert found.reason == "its instance shut down without a report"
        (note,) = found.notes
        assert "usually does not reach S3: its subnet needs public addresses, a NAT gateway or" in note

    @pytest.mark.parametrize(
        ("state", "status", "message"),
        [
            ("pending", "InProgress", "EC2 starts its instance"),
            ("running", "InProgress", "its instance boots"),
            ("shutting-down", "Stopping", "its instance shuts down"),
            ("stopped", "InProgress", "its instance is stopped, not terminated: its volume is billed"),
        ],
    )
    def test_a_living_instance_is_in_progress(self, state: str, status: str, message: str) -> None:
        found = outcome_of(launch(), {"i-1": instance(state)}, {}, NOW)
        assert (found.status, found.message) == (status, message)

    def test_no_capacity_after_the_launch_has_a_code(self) -> None:
        ended = {"i-1": instance(code="Server.InsufficientInstanceCapacity")}
        assert outcome_of(launch(), ended, {}, NOW).code == "Server.InsufficientInstanceCapacity"


class TestSeveralHosts:
    def test_the_worst_end_counts_and_the_last_time(self) -> None:
        reports = {
            "algo-1": end("Completed", NOW),
            "algo-2": end("Failed", NOW - 9, failure_reason="no disk"),
        }
        found = outcome_of(launch(instance_count=2), {}, reports, NOW)
        assert (found.status, found.reason, found.ended) == ("Failed", "no disk", NOW)

    def test_one_goes_on_while_a_host_does(self) -> None:
        several = launch(instance_count=2, instances=("i-1", "i-2"))
        living = {name: instance("running") for name in ("i-1", "i-2")}
        found = outcome_of(several, living, {"algo-1": end("Completed"), "algo-2": HostReport()}, NOW)
        assert found.status == "InProgress"

    def test_the_first_failure_is_the_reason(self) -> None:
        reports = {
            "algo-1": end("Failed", NOW, failure_reason="lost algo-2"),
            "algo-2": end("Failed", NOW - 60, failure_reason="no data", exit_code=3),
        }
        found = outcome_of(launch(instance_count=2), {}, reports, NOW)
        assert (found.reason, found.exit_code, found.ended) == ("no data", 3, NOW)

    def test_an_interruption_is_the_reason_that_the_others_failed(self) -> None:
        reports = {
            "algo-1": end("Failed", NOW - 60, failure_reason="lost algo-2"),
            "algo-2": end("Stopped", NOW, interrupted=True, failure_reason="taken back"),
        }
        found = outcome_of(launch(instance_count=2), {}, reports, NOW)
        assert (found.status, found.interrupted, found.reason) == ("Stopped", True, "taken back")

    def test_a_time_limit_is_the_reason_that_the_others_were_stopped(self) -> None:
        limit = end("Stopped", NOW)
        reports = {
            "algo-1": end("Stopped", NOW - 1),
            "algo-2": HostReport(end={**limit.end, "secondary_status": "MaxRuntimeExceeded"}),
        }
        assert outcome_of(launch(instance_count=2), {}, reports, NOW).secondary_status == "MaxRuntimeExceeded"

    def test_an_instance_that_vanished_is_the_reason_once_the_others_have_ended(self) -> None:
        several = launch(instance_count=2, instances=("i-1", "i-2"))
        instances = {"i-1": instance("running"), "i-2": instance(code="Server.SpotInstanceTermination")}
        assert outcome_of(several, instances, {}, NOW).status == "InProgress"
        reports = {"algo-1": end("Failed", failure_reason="lost algo-2"), "algo-2": HostReport()}
        found = outcome_of(several, instances, reports, NOW)
        assert (found.status, found.interrupted, found.ended) == ("Stopped", True, NOW)

    def test_a_host_that_has_ended_with_a_report_leaves_the_run_in_progress(self) -> None:
        several = launch(instance_count=2, instances=("i-1", "i-2"))
        instances = {"i-1": instance(code="Client.InstanceInitiatedShutdown"), "i-2": instance("running")}
        found = outcome_of(several, instances, {"algo-1": end("Completed")}, NOW)
        assert (found.status, found.reason) == ("InProgress", None)

    def test_every_instance_is_billed(self) -> None:
        bill = bill_of(launch(instance_count=2, usd_per_hour=3.6), NOW - 100, NOW)
        assert bill is not None
        assert bill.usd == pytest.approx(0.2)


def test_a_report_that_is_not_understood_is_a_failure() -> None:
    found = outcome_of(launch(), {}, {"algo-1": end("Odd")}, NOW)
    assert found.status == "Failed"
    strange = HostReport(boot={"phase": 3, "times": [1]}, end={"ended": "soon"})
    assert (strange.phase, strange.time_of("Training"), strange.end_time("ended")) == (None, None, None)


def test_unused_gpus_that_stopped_it_are_a_field_of_the_record() -> None:
    report = end("Failed", failure_reason="AlgorithmError: [gpu-unused] no GPU did any work")
    record = record_of(launch(), {}, {"algo-1": report}, now=NOW)
    assert record.document["stopped_for_unused_gpu"] is True
    assert record.reason == "AlgorithmError: no GPU did any work"


def test_spot_that_costs_more_than_on_demand_saves_nothing() -> None:
    assert spot_saving(launch(spot=True, usd_per_hour=2.0, on_demand_usd_per_hour=1.0)) == 0.0
    assert spot_saving(launch(spot=True, usd_per_hour=2.0)) is None


def test_warnings_about_the_gpus_are_notes_while_the_job_runs() -> None:
    findings = [
        {"code": "D703", "severity": "warning", "message": "GPU 0 has 10.7 GiB."},
        {"code": "D619", "severity": "note", "message": "Persistence mode is off."},
    ]
    reports = {"algo-1": HostReport(boot={"phase": "Training", "findings": findings})}
    record = record_of(launch(), {"i-1": instance("running")}, reports, now=NOW)
    assert record.notes == ("D703: GPU 0 has 10.7 GiB.",)


def test_what_a_host_has_noted_is_a_note_while_the_job_runs_and_once_at_its_end() -> None:
    risk = "EC2 may take the spot instance back"
    boot = {"phase": "Training", "notes": [risk]}
    running = record_of(launch(), {"i-1": instance("running")}, {"algo-1": HostReport(boot=boot)}, now=NOW)
    assert running.notes == (risk,)
    finished = replace(end("Completed", notes=[risk]), boot=boot)
    assert record_of(launch(), {}, {"algo-1": finished}, now=NOW).notes == (risk,)


def notes_of(launched: float, reports: dict[str, HostReport], **fields: Any) -> str:
    """The notes of a run whose instance was launched so many seconds ago, and runs."""
    one = instance("running", LaunchTime=datetime.fromtimestamp(NOW - launched, UTC))
    return " ".join(record_of(launch(**fields), {"i-1": one}, reports, now=NOW).notes)


def test_an_instance_that_reports_nothing_is_noted() -> None:
    booted = {"algo-1": HostReport(boot={"phase": "Downloading", "times": {"Downloading": NOW}})}
    assert "has reported nothing for 20 minutes" in notes_of(1200, {})
    assert "gpuproof stop --now train-20260501-120000-ab12" in notes_of(1200, {})
    assert notes_of(1200, booted) == notes_of(600, {}) == ""


def test_an_instance_that_outlives_its_time_limit_is_noted() -> None:
    booted = {"algo-1": HostReport(boot={"phase": "Training", "times": {"Training": NOW}})}
    assert "its time limit is over" in notes_of(5000, booted, max_duration=3600.0)
    assert notes_of(4000, booted, max_duration=3600.0) == ""
