"""A run on SageMaker as an object, on real jobs: looked at, followed, stopped, its results taken."""

from __future__ import annotations

import io
import itertools
import json
import time
from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.aws import AwsRefused, NoCredentials
from gpuproof.backends.base import Event, Live, Notice, Output, Run
from gpuproof.backends.record import RunRecord
from gpuproof.errors import ExitCode, GPUproofError, RunNotFound, UsageError
from gpuproof.jobs.spec import ProcessingJob, TrainingJob
from support.archives import archive

pytestmark = pytest.mark.slow

SAVES = """
open('/opt/ml/model/w', 'w').write('weights')
open('/opt/ml/output/data/metrics.json', 'w').write('{}')
print('saved')
"""
FOREVER = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"
COUNTS = "import time\nfor number in range(30):\n    print(number, flush=True)\n    time.sleep(0.1)\n"
PROCESSES = "import os\nopen('/opt/ml/processing/rows/a.csv', 'w').write('1')\nprint('done')\n"

KILLS_ITS_AGENT = """
import os, signal, time
pid, found = os.getppid(), []
while "gpuproof-agent.pyz" in open(f"/proc/{pid}/cmdline").read():
    found.append(pid)
    pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
# The agent first: it has a verdict as soon as its reaper is gone.
for pid in reversed(found):
    os.kill(pid, signal.SIGKILL)
time.sleep(600)
"""


def output(events: list[Event]) -> str:
    return b"".join(event.content for event in events if isinstance(event, Output)).decode()


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def running(aws: Any) -> Any:
    """A running job, which is stopped after the test."""
    run = aws.start(FOREVER)
    next(event for event in run.follow() if isinstance(event, Output))
    yield run
    aws.emulator.faults()
    run.stop()


class TestFollowing:
    def test_states_output_and_the_end_come_and_the_verdict_line_does_not(
        self, aws: Any, tmp_path: Path
    ) -> None:
        goes_on = tmp_path / "goes-on"
        run = aws.start(
            "import os, time\nprint('hello', flush=True)\n"
            f"while not os.path.exists({str(goes_on)!r}):\n    time.sleep(0.05)\n"
            "print('bye')"
        )
        events: list[Event] = []
        for event in run.follow(live=True):
            events.append(event)
            if isinstance(event, Live):
                goes_on.touch()
        assert output(events) == "hello\nbye\n"
        assert goes_on.exists()
        last = events[-1]
        assert isinstance(last, RunRecord)
        assert (last.status, last.exit_code, last.verdict, last.outcome) == (
            "Completed",
            0,
            "no-gpu-expected",
            ExitCode.OK,
        )
        assert last.billed_seconds
        assert last.cost
        assert run.verdict["outcome"] == "no-gpu-expected"

    def test_it_obeys_the_protocol_of_all_places(self, aws: Any) -> None:
        run: Run = aws.look_at("any")
        assert (run.id, run.backend, run.can_stop_at_once) == ("any", "sagemaker", False)

    def test_every_line_of_a_loud_script_comes_once_and_in_order(self, aws: Any) -> None:
        run = aws.start("for number in range(30_000):\n    print('line', number)")
        assert output(list(run.follow())).splitlines() == [f"line {number}" for number in range(30_000)]

    def test_an_interrupted_following_goes_on_where_it_was(self, aws: Any) -> None:
        run = aws.start(COUNTS)
        events = run.follow()
        first = output([next(event for event in events if isinstance(event, Output))])
        events.close()
        rest = output(list(run.follow(offset=len(first))))
        assert (first + rest).split() == [str(number) for number in range(30)]

    def test_another_machine_may_leave_out_what_was_seen(self, aws: Any) -> None:
        run = aws.ended(COUNTS)
        seen = len("0\n1\n2\n3")
        assert output(list(run.follow(offset=seen))).split() == [str(number) for number in range(4, 30)]

    def test_hosts_are_named_and_in_order_of_time(self, aws: Any) -> None:
        script = (
            "import os, time\nwho = os.environ['SM_CURRENT_HOST']\n"
            "for number in range(5):\n    print(who, number, flush=True)\n    time.sleep(0.1)\n"
        )
        run = aws.start(script, hosts=2)
        lines = output(list(run.follow())).splitlines()
        for host in ("algo-1", "algo-2"):
            assert [line for line in lines if line.startswith(host)] == [
                f"{host} | {host} {number}" for number in range(5)
            ]
        assert "2 hosts" in run.verdict["notes"][0]

    def test_throttling_and_lost_connections_lose_and_repeat_nothing(self, aws: Any) -> None:
        run = aws.start(COUNTS)
        aws.emulator.faults(
            "throttling,operation=GetLogEvents,skip=2,count=6",
            "drop,operation=GetLogEvents,skip=8,count=4",
            "throttling,operation=DescribeTrainingJob,skip=2,count=6",
            "drop,operation=DescribeTrainingJob,skip=9,count=4",
            "internal-error,operation=DescribeLogStreams,skip=1,count=2",
        )
        events = list(run.follow())
        assert output(events).split() == [str(number) for number in range(30)]
        assert isinstance(events[-1], RunRecord)
        assert events[-1].status == "Completed"

    def test_an_expired_token_gets_the_advice_to_sign_in_and_the_job_continues(
        self, aws: Any, running: Any
    ) -> None:
        aws.emulator.faults("expired-token,service=sagemaker,count=9")
        with pytest.raises((AwsRefused, NoCredentials)) as caught:
            list(aws.look_at(running.id).follow())
        aws.emulator.faults()
        assert (
            f"gpuproof logs -f {running.id}" in str(caught.value.remedy) or "xpired" in caught.value.message
        )
        assert aws.look_at(running.id).record.status == "InProgress"

    def test_a_token_that_expires_while_following_gets_the_command_to_resume(
        self, aws: Any, running: Any
    ) -> None:
        def expire(event: Event) -> bool:
            aws.emulator.faults("expired-token,service=sagemaker")
            return isinstance(event, Output)

        with pytest.raises(GPUproofError) as caught:
            for event in aws.look_at(running.id).follow():
                expire(event)
        assert "Sign in again" in str(caught.value.remedy)
        assert str(caught.value.remedy).endswith(f"gpuproof logs -f {running.id}")
        assert "ExpiredToken" in caught.value.message

    def test_a_job_deleted_meanwhile_ends_it(self, aws: Any) -> None:
        run = aws.start(FOREVER)
        events = run.follow()
        next(event for event in events if isinstance(event, Output))
        run.stop()
        aws.look_at(run.id).wait()
        aws.emulator.client("sagemaker").delete_training_job(TrainingJobName=run.id)
        with pytest.raises(RunNotFound, match="no longer exists: the job was deleted"):
            list(events)

    def test_a_wrong_clock_here_changes_no_time(self, aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        run = aws.start(FOREVER)
        next(event for event in run.follow() if isinstance(event, Output))
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + 86_400)
        assert 0 <= run.describe().live["seconds"] < 3600
        assert 0 <= (run.record.cost or 0) < 1
        run.stop()

    def test_waiting_reads_no_log(self, aws: Any) -> None:
        run = aws.start("raise SystemExit(7)")
        aws.emulator.forget_requests()
        record = run.wait()
        assert (record.status, record.exit_code, record.outcome) == ("Failed", 7, ExitCode.FAILED)
        assert "GetLogEvents" not in aws.emulator.operations("logs")


class TestStopping:
    def test_the_script_gets_sigterm_and_the_run_ends_stopped_with_its_results(self, aws: Any) -> None:
        script = (
            "import signal, sys, time\n"
            "def end(*_):\n    open('/opt/ml/model/w', 'w').write('half')\n    print('saved'); sys.exit(0)\n"
            "signal.signal(signal.SIGTERM, end)\nprint('ready', flush=True)\ntime.sleep(600)\n"
        )
        run = aws.start(script)
        next(event for event in run.follow() if isinstance(event, Output))
        run.stop()
        run.stop(at_once=True)
        record = run.wait()
        assert (record.status, record.outcome) == ("Stopped", ExitCode.FAILED)
        assert "model.tar.gz" in [artifact.name for artifact in run.artifacts()]

    def test_one_that_has_ended_stays_as_it_is(self, aws: Any) -> None:
        run = aws.ended("")
        run.stop()
        assert run.record.status == "Completed"

    def test_a_stop_refused_by_aws_reports_that_the_job_is_still_billed(self, aws: Any, running: Any) -> None:
        aws.emulator.faults("access-denied,operation=StopTrainingJob,count=1")
        with pytest.raises(AwsRefused, match="was not stopped: it is still running, and billed") as caught:
            running.stop()
        assert f"gpuproof stop {running.id}" in str(caught.value.remedy)

    def test_an_interrupted_spot_run_reports_interruption_and_savings(self, aws: Any, tmp_path: Path) -> None:
        aws.emulator.faults("interruption,line=begun,count=1")
        begun = str(tmp_path / "begun")
        run = aws.start(
            f"import os\nif not os.path.exists({begun!r}):\n    open({begun!r}, 'w').close()\n"
            "    import time\n    print('begun', flush=True)\n    time.sleep(600)\n",
            EnableManagedSpotTraining=True,
            StoppingCondition={"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 1200},
        )
        record = [event for event in run.follow() if isinstance(event, RunRecord)][-1]
        assert (record.status, record.spot_saving is not None) == ("Completed", True)
        assert "its spot instance was reclaimed once" in record.notes


class TestPulling:
    def test_archives_verdict_and_logs_come_home(self, aws: Any, tmp_path: Path) -> None:
        run = aws.ended(SAVES)
        names: list[str] = []
        made = run.pull(tmp_path / "out", progress=lambda name, *_: names.append(name))
        assert [path.name for path in made] == ["model.tar.gz", "output.tar.gz", "verdict.json", "algo-1.log"]
        assert files(tmp_path / "out") == sorted(path.name for path in made)
        assert (tmp_path / "out" / "algo-1.log").read_text() == "saved\n"
        assert json.loads((tmp_path / "out" / "verdict.json").read_text()) == run.verdict
        assert set(names) == {"model.tar.gz", "output.tar.gz"}

    def test_unpacked_they_are_folders(self, aws: Any, tmp_path: Path) -> None:
        aws.ended(SAVES).pull(tmp_path, extract=True)
        assert (tmp_path / "model" / "w").read_text() == "weights"
        assert (tmp_path / "output" / "metrics.json").read_text() == "{}"

    def test_each_host_has_its_own_log(self, aws: Any, tmp_path: Path) -> None:
        run = aws.ended("import os\nprint(os.environ['SM_CURRENT_HOST'])", hosts=2)
        run.pull(tmp_path)
        assert (tmp_path / "algo-1.log").read_text() == "algo-1\n"
        assert (tmp_path / "algo-2.log").read_text() == "algo-2\n"

    def test_outputs_of_a_processing_job_are_folders(self, aws: Any, tmp_path: Path) -> None:
        run = aws.ended(PROCESSES, kind="processing")
        assert [path.name for path in run.pull(tmp_path)] == ["rows", "verdict.json", "algo-1.log"]
        assert (tmp_path / "rows" / "a.csv").read_text() == "1"
        assert run.verdict["outcome"] == "no-gpu-expected"

    def test_an_archive_that_leads_out_is_refused_and_nothing_lands_outside(
        self, aws: Any, tmp_path: Path
    ) -> None:
        run = aws.ended(SAVES)
        location = run.artifacts()[0].location
        key = location.removeprefix(f"s3://{aws.jobs.bucket}/")
        aws.aws.put_object(aws.jobs.bucket, key, archive(**{"fine": b"1", "../../escaped": b"2"}))
        with pytest.raises(GPUproofError, match=r"\.\./\.\./escaped"):
            run.pull(tmp_path / "a" / "b", extract=True)
        assert files(tmp_path) == []

    def test_one_that_goes_on_is_refused(self, running: Any, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="is still running") as caught:
            running.pull(tmp_path / "out")
        assert caught.value.remedy == f"gpuproof wait {running.id}"
        assert not (tmp_path / "out").exists()

    def test_a_file_in_the_way_is_named(self, aws: Any, tmp_path: Path) -> None:
        (tmp_path / "out").touch()
        with pytest.raises(GPUproofError, match="could not be written"):
            aws.ended(SAVES).pull(tmp_path / "out")

    def test_a_lost_connection_in_the_middle_is_not_noticed(self, aws: Any, tmp_path: Path) -> None:
        run = aws.ended("import os\nopen('/opt/ml/model/w', 'wb').write(os.urandom(3_000_000))")
        aws.emulator.faults("drop,service=s3,operation=GetObject,count=2")
        run.pull(tmp_path, extract=True)
        assert (tmp_path / "model" / "w").stat().st_size == 3_000_000

    def test_results_go_into_the_folders_that_a_job_names(self, aws: Any, tmp_path: Path) -> None:
        run = aws.ended(SAVES)
        run.deliver(TrainingJob(entry_point="train.py", output=str(tmp_path / "out")))
        assert files(tmp_path / "out") == [
            f"{run.id}/output/model.tar.gz",
            f"{run.id}/output/output.tar.gz",
        ]
        processed = aws.ended(PROCESSES, kind="processing")
        processed.deliver(
            ProcessingJob(
                entry_point="prep.py",
                outputs={"rows": str(tmp_path / "rows"), "absent": str(tmp_path / "absent")},
            )
        )
        assert files(tmp_path / "rows") == ["a.csv"]
        assert not (tmp_path / "absent").exists()


class TestVerdict:
    def test_there_is_none_while_it_runs(self, running: Any) -> None:
        assert running.verdict is None

    def test_without_the_archive_the_log_has_it(self, aws: Any) -> None:
        run = aws.ended(SAVES)
        aws.aws.delete_objects(aws.jobs.bucket, aws.keys(f"gpuproof/runs/{run.id}/output/"))
        assert run.verdict["outcome"] == "no-gpu-expected"

    def test_a_missing_verdict_is_noted_in_the_record(self, aws: Any) -> None:
        run = aws.ended(KILLS_ITS_AGENT, tags={"gpuproof:require-gpu": "true"})
        assert run.verdict is None
        assert any("no verdict" in note for note in run.record.notes)

    def test_a_bucket_that_may_not_be_read_leaves_the_log(self, aws: Any) -> None:
        run = aws.ended(SAVES)
        aws.emulator.faults("access-denied,service=s3")
        assert run.verdict["outcome"] == "no-gpu-expected"

    def test_notes_and_exit_code_are_what_the_agent_saw(self, aws: Any) -> None:
        run = aws.ended("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
        assert run.record.exit_code == 137


class TestExplaining:
    def test_a_failure_is_explained_by_the_log_and_by_the_instance(self, aws: Any) -> None:
        printed = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
        run = aws.ended(f"raise {printed[:12]}({printed[14:]!r})", instance="ml.p3.2xlarge")
        explained = run.explanations()
        assert explained
        assert explained[0].log == "algo-1"
        assert explained[0].line

    def test_a_run_that_completed_has_none(self, aws: Any) -> None:
        assert aws.ended("").explanations() == ()

    def test_no_capacity_is_explained_by_awss_reason_alone(self, aws: Any) -> None:
        aws.emulator.faults("capacity,count=1")
        run = aws.ended("")
        assert run.record.status == "Failed"
        assert "CapacityError" in run.record.failure_reason
        (explained,) = run.explanations()
        assert explained.code == "sagemaker-capacity"
        assert explained.here == "Requested type: ml.g5.xlarge in us-east-1."
        assert "the job never started" in run.record.notes[-1]


class TestRemoving:
    def test_its_prefix_goes_and_a_model_elsewhere_stays(self, aws: Any) -> None:
        bucket = aws.emulator.bucket(f"models-{time.time_ns()}")
        run = aws.ended(SAVES, output=f"s3://{bucket}/models")
        other = aws.ended(SAVES)
        printed = run.remove()
        assert aws.keys(f"gpuproof/runs/{run.id}/") == []
        assert aws.keys(bucket=bucket) == [
            f"models/{run.id}/output/model.tar.gz",
            f"models/{run.id}/output/output.tar.gz",
        ]
        assert aws.keys(f"gpuproof/runs/{other.id}/") != []
        assert "SageMaker keeps its record of the job" in printed

    def test_one_that_goes_on_is_refused(self, aws: Any, running: Any) -> None:
        with pytest.raises(UsageError, match="is still running") as caught:
            running.remove()
        assert caught.value.remedy == f"gpuproof stop {running.id}"
        assert aws.keys(f"gpuproof/runs/{running.id}/") != []

    def test_a_job_that_gpuproof_did_not_create_is_refused(self, aws: Any) -> None:
        run = aws.ended("", tags={"gpuproof:run": "another"})
        with pytest.raises(UsageError, match="was not created by GPUproof"):
            run.remove()


class TestDescribing:
    def test_everything_printed_so_far_can_be_written_down(self, aws: Any) -> None:
        run = aws.ended("print('one')\nprint('two')")
        sink = io.BytesIO()
        assert run.write_log(sink) == len(sink.getvalue())
        assert sink.getvalue().decode() == "one\ntwo\n"

    def test_it_has_the_address_of_the_console(self, aws: Any) -> None:
        run = aws.ended("")
        assert run.address == (
            f"https://us-east-1.console.aws.amazon.com/sagemaker/home?region=us-east-1#/jobs/{run.id}"
        )
        processed = aws.ended(PROCESSES, kind="processing")
        assert processed.address.endswith(f"#/processing-jobs/{processed.id}")

    def test_a_job_that_is_not_there_names_the_region(self, aws: Any) -> None:
        with pytest.raises(RunNotFound, match="us-east-1"):
            _ = aws.look_at("nothing").record

    def test_reading_an_ended_run_takes_one_request(self, aws: Any) -> None:
        run = aws.ended("")
        _ = run.record
        aws.emulator.forget_requests()
        assert [run.record.status for _ in itertools.repeat(None, 3)] == ["Completed"] * 3
        assert aws.emulator.operations() == []

    def test_a_notice_is_a_sentence(self) -> None:
        assert Notice("AWS answers again.").text
