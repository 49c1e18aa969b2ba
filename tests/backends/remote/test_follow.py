"""Following a job with a fake clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpuproof.agent.log_markers import VERDICT_MARKER
from gpuproof.backends.aws import AwsRefused, AwsUnreachable, NoCredentials
from gpuproof.backends.base import Event, Live, Notice, Output
from gpuproof.backends.record import RunRecord
from gpuproof.backends.remote.follow import (
    LATE_SECONDS,
    LATEST_SECONDS,
    PATIENCE_SECONDS,
    Snapshot,
    follow,
    pause,
)
from gpuproof.backends.remote.logs import LogReader
from gpuproof.errors import GPUproofError, RunNotFound
from support.cloudwatch_logs import Streams

VERDICT = VERDICT_MARKER + '{"outcome": "used"}'


class SimulatedJob:
    """A job and its log as they change over time; sleeping moves the time."""

    def __init__(self) -> None:
        self.id = "job"
        self.cli_name = "job --region eu-west-1"
        self.now = 0.0
        self.streams = Streams()
        self.descriptions: list[float] = []
        self.states: list[tuple[float, str, str]] = [(0.0, "InProgress", "Training")]
        self.events: list[tuple[float, Callable[[], None]]] = []
        self.hosts = 1
        self.faults: dict[int, Exception] = {}

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        for event in [event for event in self.events if event[0] <= self.now]:
            self.events.remove(event)
            event[1]()

    def describe(self) -> Snapshot:
        self.descriptions.append(self.now)
        if (fault := self.faults.pop(len(self.descriptions), None)) is not None:
            raise fault
        _, status, secondary = [state for state in self.states if state[0] <= self.now][-1]
        ended = self.now if status in ("Completed", "Failed", "Stopped") else None
        began = secondary not in ("Starting", "Downloading")
        document: dict[str, Any] = {
            "id": "job",
            "job_name": "job",
            "kind": "training",
            "backend": "sagemaker",
            "status": status,
            "secondary_status": secondary,
            "created": 0.0,
            "script_started": 10.0 if began else None,
            "ended": ended,
            "instance_count": self.hosts,
            "status_since": [state[0] for state in self.states if state[0] <= self.now][-1],
        }
        live = {"seconds": self.now, "cost": self.now / 100, "message": "Training in progress."}
        return Snapshot(RunRecord.of(document), self.now, began, live, 0.01)

    def at(self, seconds: float, host: str, *lines: str) -> None:
        """The host prints at that time."""
        self.events.append((seconds, lambda: self.streams.say(host, *lines, at=seconds)))

    def follow(self, *, logs: bool = True, live: bool = False) -> Iterator[Event]:
        reader = LogReader(self.streams, "/aws/sagemaker/TrainingJobs", "job") if logs else None  # type: ignore[arg-type]
        return follow(self, reader, live=live, clock=self.clock, sleep=self.sleep)


@pytest.fixture
def simulated() -> SimulatedJob:
    return SimulatedJob()


def output(events: list[Event]) -> str:
    return b"".join(event.content for event in events if isinstance(event, Output)).decode()


def test_states_lines_and_the_end_come_in_their_order(simulated: SimulatedJob) -> None:
    simulated.states = [
        (0, "InProgress", "Downloading"),
        (20, "InProgress", "Training"),
        (60, "Completed", "Completed"),
    ]
    simulated.at(30, "algo-1", "epoch 1")
    simulated.at(50, "algo-1", "epoch 2", VERDICT)
    events = list(simulated.follow())
    assert [event.secondary_status for event in events if isinstance(event, RunRecord)] == [
        "Downloading",
        "Training",
        "Completed",
    ]
    assert isinstance(events[-1], RunRecord)
    assert output(events) == "epoch 1\nepoch 2\n"


def test_a_job_that_stays_as_it_is_is_looked_at_less_and_less(simulated: SimulatedJob) -> None:
    simulated.states.append((3600, "Completed", "Completed"))
    list(simulated.follow(logs=False))
    assert len([description for description in simulated.descriptions if description < 10]) <= 10
    assert len(simulated.descriptions) < 3600 / 10 + 40
    assert simulated.now < 3600 + 11


@pytest.mark.parametrize(("seconds", "wait"), [(0, 1), (5, 1), (40, 4), (100, 10), (86_400, 10)])
def test_the_pause_grows_with_the_age_of_the_state(seconds: float, wait: float) -> None:
    assert pause(seconds) == wait


def test_following_from_the_middle_begins_with_long_pauses(simulated: SimulatedJob) -> None:
    simulated.states = [(-5000, "InProgress", "Training"), (30, "Completed", "Completed")]
    list(simulated.follow(logs=False))
    assert len(simulated.descriptions) <= 5


def test_lines_come_soon_though_the_state_is_looked_at_rarely(simulated: SimulatedJob) -> None:
    simulated.states = [(-5000, "InProgress", "Training"), (300, "Completed", "Completed")]
    simulated.at(200, "algo-1", "line")
    seen = next(simulated.now for event in simulated.follow() if isinstance(event, Output))
    assert 200 <= seen < 206


def test_many_hosts_do_not_hammer_the_log(simulated: SimulatedJob) -> None:
    simulated.states.append((100, "Stopped", "Stopped"))
    for host in range(50):
        simulated.at(1, f"algo-{host + 1}", VERDICT)
    simulated.hosts = 50
    list(simulated.follow())
    assert len(simulated.streams.asked) / simulated.now < 25  # GetLogEvents a second and account


def test_lines_after_the_end_are_waited_for_until_the_verdict(simulated: SimulatedJob) -> None:
    simulated.states.append((20, "Completed", "Completed"))
    simulated.at(26, "algo-1", "late")
    simulated.at(30, "algo-1", VERDICT)
    events = list(simulated.follow())
    assert output(events) == "late\n"
    assert simulated.now < 36


def test_a_host_that_begins_anew_shortly_before_the_end_is_heard_to_its_own_end(
    simulated: SimulatedJob,
) -> None:
    simulated.states.append((6.0, "Completed", "Completed"))
    simulated.at(2.0, "algo-1", "first attempt", VERDICT)
    simulated.events.append((5.0, lambda: simulated.streams.say("algo-1", "second attempt", at=5.0, epoch=2)))
    simulated.events.append(
        (7.0, lambda: simulated.streams.say("algo-1", "its end", VERDICT, at=7.0, epoch=2))
    )
    assert output(list(simulated.follow())) == "first attempt\nsecond attempt\nits end\n"


def test_without_a_verdict_the_waiting_has_an_end(simulated: SimulatedJob) -> None:
    simulated.states.append((20, "Failed", "Failed"))
    simulated.at(15, "algo-1", "killed")
    assert output(list(simulated.follow())) == "killed\n"
    assert simulated.now < 21 + 2 * LATE_SECONDS


def test_a_log_that_never_ends_is_left_in_time(simulated: SimulatedJob) -> None:
    simulated.states.append((20, "Failed", "Failed"))
    for second in range(20, 400, 5):
        simulated.at(second, "algo-1", f"line {second}")
    list(simulated.follow())
    assert simulated.now < 20 + LATEST_SECONDS + 5


def test_a_job_that_never_began_is_not_waited_for(simulated: SimulatedJob) -> None:
    simulated.states = [(0, "InProgress", "Starting"), (5, "Failed", "Starting")]
    list(simulated.follow())
    assert simulated.now < 8
    assert simulated.streams.asked == []


def test_the_progress_line_has_elapsed_time_and_cost(simulated: SimulatedJob) -> None:
    simulated.states.append((30, "Completed", "Completed"))
    samples = [event.sample for event in simulated.follow(live=True) if isinstance(event, Live)]
    assert samples[-1]["seconds"] > samples[0]["seconds"]
    assert samples[-1]["cost"] == pytest.approx(samples[-1]["seconds"] / 100, rel=0.01)
    assert samples[0]["message"] == "Training in progress."


class TestFailures:
    def test_a_lost_connection_is_reported_once_and_nothing_is_lost_or_repeated(
        self, simulated: SimulatedJob
    ) -> None:
        simulated.states.append((200, "Completed", "Completed"))
        for second in range(5, 200, 5):
            simulated.at(second, "algo-1", f"line {second}")
        simulated.at(199, "algo-1", VERDICT)
        simulated.faults = {number: AwsUnreachable("no route") for number in range(4, 9)}
        simulated.streams.faults.extend([None] * 12 + [AwsUnreachable("reset")] * 3)  # type: ignore[list-item]
        events = list(simulated.follow())
        notices = [event.text for event in events if isinstance(event, Notice)]
        assert len([text for text in notices if "keeps running" in text]) == 2
        assert len([text for text in notices if "restored" in text]) >= 2
        assert output(events).split("\n")[:-1] == [f"line {second}" for second in range(5, 200, 5)]

    def test_throttling_is_waited_out(self, simulated: SimulatedJob) -> None:
        simulated.states.append((20, "Completed", "Completed"))
        simulated.faults = {2: AwsRefused("slow down", code="ThrottlingException", status=400)}
        assert isinstance(list(simulated.follow(logs=False))[-1], RunRecord)

    def test_aws_that_stays_away_ends_it_with_what_to_type_next(self, simulated: SimulatedJob) -> None:
        simulated.faults = {
            number: AwsUnreachable("no route", remedy="Look at the network.") for number in range(2, 999)
        }
        with pytest.raises(AwsUnreachable) as caught:
            list(simulated.follow())
        assert PATIENCE_SECONDS < simulated.now < 2 * PATIENCE_SECONDS
        assert "job is still running on AWS" in caught.value.message
        assert "gpuproof logs -f job" in str(caught.value.remedy)

    @pytest.mark.parametrize(
        "error",
        [
            NoCredentials("The token is gone."),
            AwsRefused("expired", code="ExpiredTokenException", status=400),
            AwsRefused("expired", code="ExpiredToken", status=403),
        ],
    )
    def test_an_expired_token_gets_the_advice_to_sign_in_and_resume(
        self, simulated: SimulatedJob, error: GPUproofError
    ) -> None:
        simulated.faults = {3: error}
        with pytest.raises(type(error)) as caught:
            list(simulated.follow())
        assert "Sign in again" in str(caught.value.remedy)
        assert str(caught.value.remedy).endswith("gpuproof logs -f job --region eu-west-1")
        assert len(simulated.descriptions) == 3

    def test_what_is_not_allowed_ends_it_at_once(self, simulated: SimulatedJob) -> None:
        simulated.faults = {
            1: AwsRefused("no", remedy="Ask for it.", code="AccessDeniedException", status=400)
        }
        with pytest.raises(AwsRefused, match="is still running on AWS"):
            list(simulated.follow())

    def test_a_deleted_job_ends_it(self, simulated: SimulatedJob) -> None:
        simulated.faults = {2: RunNotFound("job is not there any more")}
        with pytest.raises(RunNotFound):
            list(simulated.follow())
