"""Following a run whose agent the test plays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from gpuproof.agent.paths import RunPaths
from gpuproof.agent.state import read_state
from gpuproof.backends.base import Event, Live, Output
from gpuproof.backends.local.follow import follow as follow_with
from gpuproof.backends.local.host_logs import SingleLog
from gpuproof.backends.local.run_folders import RunFolders
from gpuproof.backends.record import RunRecord
from gpuproof.errors import RunNotFound
from gpuproof.util.atomic import write_json


class Agent:
    """Changes a run's files as the agent does."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths

    def prints(self, text: bytes) -> None:
        with self.paths.log().open("ab") as log:
            log.write(text)

    def becomes(self, status: str, **values: object) -> None:
        document = read_state(self.paths.run) or {}
        write_json(self.paths.run, {**document, "status": status, **values})

    def samples(self, sample: dict[str, object]) -> None:
        write_json(self.paths.live, sample)


@pytest.fixture
def agent(runs) -> Agent:
    return Agent(runs.make_alive("train-1"))


def follow(store: RunFolders, run_id: str, *, offset: int = 0, live: bool = False) -> Iterator[Event]:
    return follow_with(store, run_id, SingleLog(store.paths(run_id).log(), offset), live=live)


def meanwhile(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def kinds(events: Iterator[Event] | list[Event]) -> list[object]:
    """Each event in short: output joined, states and samples by name."""
    short: list[object] = []
    for event in events:
        if isinstance(event, Output):
            if short and isinstance(short[-1], bytes):
                short[-1] += event.content
            else:
                short.append(event.content)
        elif isinstance(event, RunRecord):
            short.append(event.status)
        else:
            short.append(event.sample)
    return short


def test_an_ended_run_is_printed_completely_and_following_ends(store: RunFolders, agent: Agent) -> None:
    agent.prints(b"one\ntwo\n")
    agent.becomes("Completed")
    assert kinds(follow(store, "train-1")) == [b"one\ntwo\n", "Completed"]


def test_output_comes_as_it_is_written(store: RunFolders, agent: Agent) -> None:
    events = follow(store, "train-1")
    first = next(events)
    assert isinstance(first, RunRecord)
    assert first.status == "InProgress"
    agent.prints(b"one\n")
    assert next(events) == Output(b"one\n")
    agent.prints(b"two\n")
    assert next(events) == Output(b"two\n")
    agent.becomes("Completed")
    assert kinds(events) == ["Completed"]


def test_the_last_words_come_before_the_end(store: RunFolders, agent: Agent) -> None:
    events = follow(store, "train-1")
    next(events)

    def end() -> None:
        agent.prints(b"last\n")
        agent.becomes("Failed")

    thread = meanwhile(end)
    assert kinds(events) == [b"last\n", "Failed"]
    thread.join()


def test_each_state_change_is_reported_once(store: RunFolders, agent: Agent) -> None:
    events = follow(store, "train-1")
    assert isinstance(next(events), RunRecord)
    agent.becomes("InProgress", secondary_status="Training")
    changed = next(events)
    assert isinstance(changed, RunRecord)
    assert changed.secondary_status == "Training"
    agent.becomes("Stopping")
    assert kinds([next(events)]) == ["Stopping"]
    agent.becomes("Stopped")
    assert kinds(events) == ["Stopped"]


def test_what_was_seen_before_is_left_out(store: RunFolders, agent: Agent) -> None:
    agent.prints(b"0123456789")
    agent.becomes("Completed")
    assert kinds(follow(store, "train-1", offset=4)) == [b"456789", "Completed"]
    assert kinds(follow(store, "train-1", offset=99)) == ["Completed"]


def test_samples_are_reported_only_on_request(store: RunFolders, agent: Agent) -> None:
    events = follow(store, "train-1", live=True)
    next(events)
    agent.samples({"seconds": 1})
    assert next(events) == Live({"seconds": 1})
    agent.samples({"seconds": 2})
    assert next(events) == Live({"seconds": 2})
    agent.becomes("Completed")
    assert kinds(events) == ["Completed"]
    assert kinds(follow(store, "train-1")) == ["Completed"]


def test_the_same_sample_is_not_reported_twice(store: RunFolders, agent: Agent) -> None:
    events = follow(store, "train-1", live=True)
    next(events)
    agent.samples({"seconds": 1})
    next(events)
    agent.prints(b"x")
    assert next(events) == Output(b"x")
    agent.becomes("Completed")
    assert kinds(events) == ["Completed"]


def test_an_agent_that_dies_silently_ends_it_at_once(store: RunFolders, agent: Agent, runs) -> None:
    agent.becomes("InProgress", agent_pid=1)
    events = follow(store, "train-1")
    next(events)
    thread = meanwhile(lambda: runs.release("train-1"))
    last = list(events)[-1]
    thread.join()
    assert isinstance(last, RunRecord)
    assert (last.status, last.failure_reason) == ("Failed", "the agent was killed, and the script with it")


def test_a_run_removed_meanwhile_is_reported(store: RunFolders, agent: Agent) -> None:
    events = follow(store, "train-1")
    next(events)
    thread = meanwhile(lambda: agent.paths.root.rename(store.root / ".train-1.removed"))
    with pytest.raises(RunNotFound):
        list(events)
    thread.join()


def test_a_run_that_never_existed_is_reported(store: RunFolders) -> None:
    with pytest.raises(RunNotFound):
        list(follow(store, "nothing"))


def test_a_lot_of_output_comes_whole(store: RunFolders, agent: Agent) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(200_000))

    def talk() -> None:
        for start in range(0, len(lines), 100_000):
            agent.prints(lines[start : start + 100_000])
        agent.becomes("Completed")

    thread = meanwhile(talk)
    output = kinds(follow(store, "train-1"))
    thread.join()
    # On a busy machine it may all be over before the first look.
    assert [part for part in output if part != "InProgress"] == [lines, "Completed"]


def test_a_run_that_has_ended_before_it_was_seen_starts_before_its_output(
    store: RunFolders, agent: Agent
) -> None:
    agent.prints(b"done\n")
    agent.becomes("Completed", script_started=1.0)
    first, output, last = follow(store, "train-1")
    assert isinstance(first, RunRecord)
    assert first.started == 1.0
    assert isinstance(output, Output)
    assert isinstance(last, RunRecord)
    assert last.has_ended
