"""A run on EC2 as an object: its state, results, verdict, explanations, end and removal."""

from __future__ import annotations

import io
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.aws import Aws
from gpuproof.backends.base import Event, Output
from gpuproof.backends.ec2.requests.launch_objects import read_launch
from gpuproof.backends.ec2.run import EC2Run
from gpuproof.backends.record import RunRecord
from gpuproof.backends.remote.iam.policy import Scope, trust_policy
from gpuproof.backends.remote.s3_layout import RunLayout
from gpuproof.errors import ExitCode, RunNotFound, UsageError
from gpuproof.jobs.models.script_jobs import ProcessingJob, TrainingJob
from support.archives import archive
from support.faulty_aws import FaultyAws, query_error

pytestmark = pytest.mark.slow

NOT_ALLOWED = "access-denied,service=ec2,operation=DescribeInstances"


def output(events: list[Event]) -> str:
    return b"".join(event.content for event in events if isinstance(event, Output)).decode()


class TestStates:
    @pytest.mark.parametrize("phase", ["Starting", "Downloading", "Training", "Uploading"])
    def test_while_it_runs_its_host_reports_the_phase(self, ec2: Any, phase: str) -> None:
        launch = ec2.launch()
        ec2.boot(launch, phase)
        record = ec2.look_at(launch).record
        assert (record.status, record.secondary_status) == ("InProgress", phase)
        assert (record.started is not None) == (phase in ("Training", "Uploading"))
        assert record.backend == "ec2"
        assert record.outcome

    def test_before_the_first_report_its_instance_boots(self, ec2: Any) -> None:
        record = ec2.look_at(ec2.launch()).record
        assert (record.status, record.secondary_status) == ("InProgress", "Starting")
        assert record.document["status_message"] == "its instance boots"

    def test_completed(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.end(launch)
        record = ec2.look_at(launch).record
        assert (record.status, record.exit_code, record.verdict) == ("Completed", 0, "used")
        assert record.outcome == ExitCode.OK
        assert record.document["command"] == ["train.py"]

    def test_a_failure_has_the_hosts_reason(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.end(launch, "Failed", failure_reason="No NVIDIA driver", exit_code=None, script_started=None)
        record = ec2.look_at(launch).record
        assert (record.status, record.reason, record.exit_code) == ("Failed", "No NVIDIA driver", None)
        assert "no verdict on GPU use: no host reported that the script started" in record.notes

    def test_the_agents_reason_is_shorter_than_the_hosts(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.end(launch, "Failed", failure_reason="AlgorithmError: Traceback ... ValueError: no data")
        state = {"failure_reason": "ValueError: no data", "exit_code": 1, "notes": ["a note"]}
        ec2.report(launch, "run.json", state)
        record = ec2.look_at(launch).record
        assert record.reason == "AlgorithmError: ValueError: no data"
        assert "a note" in record.notes

    def test_stopped(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.end(launch, "Stopped")
        assert ec2.look_at(launch).record.status == "Stopped"

    def test_a_reclaimed_spot_instance_is_noted_and_how_to_go_on(self, ec2: Any) -> None:
        launch = ec2.launch(spot=True, checkpoints=f"s3://{ec2.bucket}/gpuproof/checkpoints/train/x/")
        ec2.end(launch, "Stopped", secondary_status="Interrupted", interrupted=True)
        record = ec2.look_at(launch).record
        assert record.document["interruptions"] == 1
        assert record.notes == (
            "its spot instance was reclaimed; the same `gpuproof run` continues from its checkpoints",
        )

    def test_a_time_limit_that_ended_it_is_noted(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.end(launch, "Stopped", secondary_status="MaxRuntimeExceeded")
        assert any("its time limit (3600 s)" in note for note in ec2.look_at(launch).record.notes)

    def test_one_that_was_terminated_by_a_user_is_stopped(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.boot(launch)
        ec2.terminate(launch)
        record = ec2.look_at(launch).record
        assert (record.status, record.reason) == ("Stopped", "its instance was terminated by a request")
        assert record.ended is not None
        assert abs(record.ended - time.time()) < 600

    def test_one_whose_instance_is_forgotten_has_failed(self, ec2: Any) -> None:
        launch = replace(
            ec2.launch(instances=0, created=time.time() - 7200), instances=("i-0123456789abcdef0",)
        )
        ec2.write(launch)
        record = ec2.look_at(launch).record
        assert record.status == "Failed"
        assert record.reason == "its instance no longer exists, and left no report"
        assert record.cost is None

    def test_a_new_instance_that_is_not_visible_yet_is_starting(self, ec2: Any) -> None:
        launch = replace(ec2.launch(instances=0), instances=("i-0123456789abcdef0",))
        assert ec2.look_at(launch).record.secondary_status == "Starting"

    def test_a_submission_that_did_not_finish_has_failed(self, ec2: Any) -> None:
        launch = ec2.launch(instances=0)
        assert ec2.look_at(launch).record.document["status_message"] == "its instance is being launched"
        late = ec2.look_at(launch, now=lambda: launch.created + 1000).record
        assert (late.status, late.reason) == (
            "Failed",
            "no instance was launched: the submission did not finish",
        )
        assert late.status_text == "Failed (never launched)"

    def test_a_long_upload_before_the_launch_is_no_failure(self, ec2: Any) -> None:
        now = time.time()
        launch = ec2.launch(instances=0, created=now - 7200, launching=now - 10)
        assert ec2.look_at(launch).record.status == "InProgress"

    def test_an_instance_whose_id_was_not_recorded_is_found_by_its_tag(self, ec2: Any) -> None:
        launch = ec2.launch(created=time.time() - 7200)
        ec2.write(replace(launch, instances=()))
        record = ec2.look_at(replace(launch, instances=())).record
        assert (record.status, record.document["instances"]) == ("InProgress", [*launch.instances])
        (listed,) = [item for item in ec2.store().records() if item.id == launch.run_id]
        assert (listed.status, listed.document["instances"]) == ("InProgress", [*launch.instances])

    def test_the_listing_creates_the_schedule_that_a_killed_submission_has_not_created(
        self, ec2: Any
    ) -> None:
        trust = json.dumps(trust_policy(Scope(backend="scheduler", account="123456789012")))
        role = ec2.emulator.client("iam").create_role(RoleName="schedules", AssumeRolePolicyDocument=trust)
        launch = ec2.launch(created=time.time() - 7200, schedule_role=role["Role"]["Arn"])
        ec2.write(replace(launch, instances=()))
        scheduler = ec2.emulator.client("scheduler")
        assert scheduler.list_schedules()["Schedules"] == []
        assert launch.run_id in [item.id for item in ec2.store().records()]
        (schedule,) = scheduler.list_schedules()["Schedules"]
        described = scheduler.get_schedule(Name=schedule["Name"])
        assert launch.instances[0] in described["Target"]["Input"]
        assert described["StartDate"].timestamp() > time.time()
        scheduler.delete_schedule(Name=schedule["Name"])

    def test_a_report_counts_even_if_the_record_lacks_the_instances(self, ec2: Any) -> None:
        launch = ec2.launch(instances=0)
        ec2.end(launch)
        assert ec2.look_at(launch).record.status == "Completed"

    def test_the_ids_of_instances_that_are_recorded_later_are_read(self, ec2: Any) -> None:
        launch = ec2.launch()
        run = ec2.look_at(replace(launch, instances=()))
        _ = run.record
        assert run.launch.instances == launch.instances

    def test_without_permission_to_describe_instances_the_hosts_reports_remain(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.boot(launch)
        ec2.emulator.faults(NOT_ALLOWED)
        record = ec2.look_at(launch).record
        assert (record.status, record.secondary_status) == ("InProgress", "Training")
        assert "ec2:DescribeInstances" in record.notes[0]
        late = ec2.look_at(launch, now=lambda: launch.created + 8000).record
        assert (late.status, late.reason) == ("Failed", "it left no report within its time limit")
        ec2.end(replace(launch, instances=()))
        assert ec2.look_at(launch).record.status == "Completed"

    def test_one_that_was_removed_is_not_found(self, ec2: Any) -> None:
        launch = replace(ec2.launch(), instances=())
        ec2.aws.delete_objects(ec2.bucket, ec2.keys())
        with pytest.raises(RunNotFound, match="it was removed"):
            _ = ec2.look_at(launch).record


class TestCost:
    def test_the_time_from_launch_to_end_is_billed(self, ec2: Any) -> None:
        launch = ec2.launch(usd_per_hour=3.6)
        ec2.end(launch, seconds=1000)
        record = ec2.look_at(launch).record
        assert record.billed_seconds == pytest.approx(1000, abs=60)
        assert record.cost == pytest.approx(1.0, abs=0.1)
        assert record.spot_saving is None

    def test_less_than_a_minute_is_billed_as_one(self, ec2: Any) -> None:
        launch = ec2.launch(usd_per_hour=3.6)
        ec2.end(launch, seconds=0.0)
        assert ec2.look_at(launch).record.cost == pytest.approx(0.06)

    def test_spot_capacity_saves_a_share_of_the_on_demand_price(self, ec2: Any) -> None:
        launch = ec2.launch(spot=True, usd_per_hour=0.4, on_demand_usd_per_hour=1.0)
        ec2.end(launch)
        assert ec2.look_at(launch).record.spot_saving == pytest.approx(0.6)

    def test_an_unknown_price_is_no_cost(self, ec2: Any) -> None:
        launch = ec2.launch(usd_per_hour=None, on_demand_usd_per_hour=None)
        ec2.end(launch)
        assert ec2.look_at(launch).record.cost is None


class TestFollowing:
    def test_output_and_the_end_come_and_the_verdict_line_does_not(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.boot(launch)
        ec2.log(launch, "epoch 1", "epoch 2", '{"outcome": 1}')
        events: list[Event] = []
        for event in ec2.look_at(launch).follow(live=True):
            if isinstance(event, Output):
                ec2.end(launch)
            events.append(event)
        assert output(events) == 'epoch 1\nepoch 2\n{"outcome": 1}\n'
        final = events[-1]
        assert isinstance(final, RunRecord)
        assert (final.status, final.verdict) == ("Completed", "used")

    def test_the_log_since_a_time_and_of_a_host(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.end(launch)
        ec2.log(launch, "old", at=time.time() - 3600)
        ec2.log(launch, "new")
        run, sink = ec2.look_at(launch), io.BytesIO()
        assert run.write_log(sink, since=time.time() - 600, host="algo-1") == len("old\nnew\n")
        assert sink.getvalue() == b"new\n"
        with pytest.raises(UsageError, match="only host is algo-1"):
            run.write_log(sink, host="algo-2")

    def test_waiting_returns_the_final_record(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.end(launch)
        assert ec2.look_at(launch).wait().status == "Completed"


class TestStopping:
    def test_a_tag_on_the_instance_asks_its_host(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.boot(launch)
        run = ec2.look_at(launch)
        run.stop()
        (instance,) = ec2.aws.instances(launch.instances)
        assert "gpuproof:stop" in {tag["Key"] for tag in instance["Tags"]}
        assert run.record.status == "Stopping"
        assert ec2.states(launch) == ["running"]

    def test_at_once_the_instance_is_terminated(self, ec2: Any) -> None:
        launch = ec2.launch()
        run = ec2.look_at(launch)
        run.stop(at_once=True)
        assert ec2.states(launch) == ["terminated"]
        assert run.wait().status == "Stopped"

    @pytest.mark.parametrize("at_once", [False, True])
    def test_an_instance_that_ec2_does_not_know_everywhere_yet_is_stopped(
        self, ec2: Any, monkeypatch: pytest.MonkeyPatch, *, at_once: bool
    ) -> None:
        launch = ec2.launch()
        with FaultyAws(ec2.emulator.url) as faulty:
            monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", faulty.url)
            for operation in ("CreateTags", "TerminateInstances"):
                faulty.fault(operation, query_error("InvalidInstanceID.NotFound"), times=2)
            run = EC2Run(Aws(sleep=lambda _: None), launch, sleep=lambda _: None)
            run.stop(at_once=at_once)
            (instance,) = ec2.aws.instances(launch.instances)
        tags = {tag["Key"] for tag in instance["Tags"]}
        assert (instance["State"]["Name"] == "terminated", "gpuproof:stop" in tags) == (at_once, not at_once)

    def test_instances_that_are_not_recorded_yet_are_found_by_their_tag(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.write(replace(launch, instances=()))
        run = ec2.look_at(replace(launch, instances=()))
        run.stop(at_once=True)
        assert ec2.states(launch) == ["terminated"]
        assert run.wait().status == "Stopped"
        assert read_launch(ec2.aws, launch.bucket, launch.run_id) == launch

    @pytest.mark.parametrize("at_once", [False, True])
    def test_one_that_is_being_launched_ends_at_once(self, ec2: Any, *, at_once: bool) -> None:
        launch = ec2.launch(instances=0, launching=time.time())
        run = ec2.look_at(launch)
        run.stop(at_once=at_once)
        assert run.wait().status_text == "Stopped (never launched)"
        (listed,) = [item for item in ec2.store().records() if item.id == launch.run_id]
        assert (listed.status, listed.reason) == (
            "Stopped",
            "it was stopped before an instance was launched",
        )

    def test_one_whose_instance_appears_while_it_is_stopped_is_stopped_with_it(self, ec2: Any) -> None:
        launched = ec2.launch()
        ec2.write(replace(launched, instances=()))
        looks: list[str] = []

        class SlowlyVisible(Aws):
            def tagged_instances(self, *given: Any, **named: Any) -> Any:
                looks.append("look")
                yield from super().tagged_instances(*given, **named) if len(looks) > 2 else ()

        run = EC2Run(
            SlowlyVisible(sleep=lambda _: None), replace(launched, instances=()), sleep=lambda _: None
        )
        run.stop(at_once=True)
        assert ec2.states(launched) == ["terminated"]

    def test_one_that_was_never_launched_is_not_changed(self, ec2: Any) -> None:
        launch = ec2.launch(instances=0, created=time.time() - 7200)
        run = ec2.look_at(launch)
        run.stop()
        assert run.wait().status_text == "Failed (never launched)"
        assert read_launch(ec2.aws, launch.bucket, launch.run_id) == launch

    def test_one_that_has_ended_is_not_changed(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.end(launch)
        ec2.emulator.forget_requests()
        ec2.look_at(launch).stop()
        assert not {"CreateTags", "TerminateInstances"} & set(ec2.emulator.operations())

    def test_without_permission_the_error_warns_that_it_runs_on(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.emulator.faults("access-denied,service=ec2,operation=CreateTags")
        with pytest.raises(Exception, match="still running, and billed") as caught:
            ec2.look_at(launch).stop()
        assert f"gpuproof stop {launch.run_id}" in str(caught.value.remedy)  # type: ignore[attr-defined]


class TestResults:
    def test_archives_verdict_and_log_are_pulled(self, ec2: Any, tmp_path: Path) -> None:
        launch = ec2.launch()
        key = f"gpuproof/runs/{launch.run_id}/output/{launch.run_id}/output/model.tar.gz"
        ec2.aws.put_object(ec2.bucket, key, archive(w=b"weights"))
        ec2.log(launch, "saved")
        ec2.end(launch)
        run = ec2.look_at(launch)
        made = run.pull(tmp_path / "out", extract=True)
        assert [path.name for path in made] == ["model", "verdict.json", "algo-1.log"]
        assert (tmp_path / "out" / "model" / "w").read_bytes() == b"weights"
        assert (tmp_path / "out" / "algo-1.log").read_text() == "saved\n"
        assert json.loads((tmp_path / "out" / "verdict.json").read_text())["outcome"] == "used"
        run.deliver(TrainingJob(entry_point="train.py", output=str(tmp_path / "home")))
        assert (tmp_path / "home" / launch.run_id / "output" / "model.tar.gz").exists()

    def test_outputs_of_a_processing_job_go_to_its_folders(self, ec2: Any, tmp_path: Path) -> None:
        address = f"s3://{ec2.bucket}/rows"
        launch = ec2.launch(kind="processing", output="", outputs={"rows": address})
        ec2.aws.put_object(ec2.bucket, "rows/a.csv", b"1")
        ec2.end(launch)
        run = ec2.look_at(launch)
        assert [artifact.location for artifact in run.artifacts()] == [f"{address}/"]
        folders: dict[str, Any] = {"rows": str(tmp_path / "rows")}
        run.deliver(ProcessingJob(entry_point="prep.py", outputs=folders))
        assert (tmp_path / "rows" / "a.csv").read_text() == "1"

    def test_one_that_runs_is_not_pulled(self, ec2: Any, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="is still running"):
            ec2.look_at(ec2.launch()).pull(tmp_path / "out")

    def test_the_verdict_of_the_log_counts_if_s3_has_none(self, ec2: Any) -> None:
        from gpuproof.agent.log_markers import VERDICT_MARKER

        launch = ec2.launch()
        ec2.log(launch, "done", VERDICT_MARKER + '{"outcome": "idle"}')
        ec2.end(launch)
        layout = f"gpuproof/runs/{launch.run_id}/hosts/algo-1/"
        ec2.aws.delete_objects(ec2.bucket, [f"{layout}verdict.json", f"{layout}run.json"])
        assert ec2.look_at(launch).record.verdict == "idle"


class TestRemoving:
    def test_its_files_go_and_its_checkpoints_stay(self, ec2: Any) -> None:
        checkpoints = f"gpuproof/checkpoints/train/{time.time_ns()}/"
        launch = ec2.launch(checkpoints=f"s3://{ec2.bucket}/{checkpoints}")
        ec2.aws.put_object(ec2.bucket, f"{checkpoints}step-1", b"1")
        ec2.end(launch)
        printed = ec2.look_at(launch).remove()
        assert ec2.keys() == [f"{checkpoints}step-1"]
        assert f"aws s3 rm --recursive s3://{ec2.bucket}/{checkpoints}" in printed

    def test_one_that_runs_is_refused(self, ec2: Any) -> None:
        launch = ec2.launch()
        with pytest.raises(UsageError, match="is still running"):
            ec2.look_at(launch).remove()
        assert ec2.keys()

    def test_one_whose_instance_still_lives_is_refused(self, ec2: Any) -> None:
        launch = ec2.launch()
        ec2.end(replace(launch, instances=()))
        with pytest.raises(UsageError, match=launch.instances[0]) as caught:
            ec2.look_at(launch).remove()
        assert caught.value.remedy == f"gpuproof stop --now {launch.run_id}"
        late = ec2.look_at(launch, now=lambda: time.time() + 3600)
        assert any("still runs, and is billed" in note for note in late.record.notes)
        late.stop(at_once=True)
        assert ec2.look_at(launch).remove()


class TestExplaining:
    def test_the_log_explains_a_failure(self, ec2: Any) -> None:
        launch = ec2.launch("old-gpu", instance_type="p3.2xlarge")
        ec2.log(launch, "RuntimeError: CUDA error: no kernel image is available for execution on the device")
        ec2.end(launch, "Failed")
        explained = ec2.look_at(launch).explanations()
        assert explained
        assert explained[0].log == "algo-1"

    def test_the_job_that_was_submitted_decides_the_remedy(self, ec2: Any) -> None:
        launch = ec2.launch("no-ranks")
        job = {"entry_point": "ddp.py", "launcher": "none", "channels": ["train"]}
        ec2.aws.put_object(ec2.bucket, RunLayout(launch.run_id).job, json.dumps(job).encode())
        ec2.log(launch, "ValueError: environment variable RANK expected, but not set")
        ec2.end(launch, "Failed")
        (found,) = ec2.look_at(launch).explanations()
        assert found.code == "launcher-missing"
        assert "gpuproof run ddp.py --distribution torchrun" in found.remedy

    def test_the_console_is_evidence_if_the_host_left_no_report(self, ec2: Any) -> None:
        launch = ec2.launch(created=time.time() - 7200)
        ec2.emulator.forget_requests()
        ec2.look_at(launch).report()
        assert "GetConsoleOutput" in ec2.emulator.operations("ec2")


def test_its_address_is_the_console(ec2: Any) -> None:
    launch = ec2.launch()
    run = ec2.look_at(launch)
    assert run.address.endswith(f"ec2/home?region=us-east-1#InstanceDetails:instanceId={launch.instances[0]}")
    china = ec2.look_at(replace(launch, region="cn-north-1"))
    assert china.address.startswith("https://console.amazonaws.cn/ec2/home?region=cn-north-1")
    assert repr(run) == f"<EC2Run {launch.run_id}>"
