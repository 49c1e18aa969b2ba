"""Following and stopping runs on SageMaker, on real jobs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.aws import AwsRefused, NoCredentials
from gpuproof.backends.base import Event, Live, Output, Run
from gpuproof.backends.record import RunRecord
from gpuproof.errors import ExitCode, GPUproofError, RunNotFound

pytestmark = pytest.mark.slow

FOREVER = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"
COUNTS = "import time\nfor number in range(30):\n    print(number, flush=True)\n    time.sleep(0.1)\n"


def output(events: list[Event]) -> str:
    return b"".join(event.content for event in events if isinstance(event, Output)).decode()


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
        assert [host["host"] for host in run.verdict["hosts"]] == ["algo-1", "algo-2"]

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
