"""The processes of a job on one host: who is the last one, and what the host's report says of all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpuproof.util.launcher import Member
from gpuproof.watch.group.host_job import ARRIVAL_S, HostJob, join_visible
from gpuproof.watch.settings import WatchSettings

TWO = Member("slurm-17.0", "n1", "Slurm", 2, 4, 2, ("n1", "n2"))


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def host_job(member: Member | None, clock: Clock | None = None, **settings: str) -> HostJob:
    """A job whose processes are this one."""
    return HostJob(WatchSettings(**settings), member, {}, clock=clock or Clock())  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("devices", "joined"),
    [
        (["0", "1"], "0,1"),
        (["0,1", "0,1"], "0,1"),
        (["GPU-8b", " GPU-3a , GPU-8b"], "GPU-8b,GPU-3a"),
        (["0", None], None),
        (["", "2"], "2"),
        ([""], ""),
    ],
)
def test_the_gpus_of_a_host_are_those_that_any_of_its_processes_sees(
    devices: Sequence[str | None], joined: str | None
):
    assert join_visible(devices) == joined


def test_a_process_that_ends_before_the_others_have_begun_is_not_the_last_one():
    job = host_job(TWO)
    job.join(1001, {}, {})
    assert job.leave(1001, 3) == {"last": False}
    job.join(1002, {}, {"command": ["train"]})
    answer = job.leave(1002, 0)
    assert answer["last"]
    report = answer["report"]
    assert (report["exit_code"], report["command"], report["notes"]) == (3, ["train"], ())
    assert (report["host"], report["group"], report["hosts"]) == ("n1", "slurm-17.0", 2)


def test_processes_that_never_come_are_not_waited_for():
    clock = Clock()
    job = host_job(TWO, clock)
    job.join(1001, {}, {})
    clock.now = ARRIVAL_S / 2
    assert job.time_left() == ARRIVAL_S / 2
    clock.now = ARRIVAL_S
    answer = job.leave(1001, 0)
    assert answer["last"]
    assert list(answer["report"]["notes"]) == ["1 of 2 processes of this host were watched."]


@pytest.mark.parametrize(
    ("codes", "code", "signal"),
    [((0, 0), 0, None), ((0, -9), None, 9), ((None, 0), None, None), ((None, 5), 5, None)],
)
def test_the_host_has_failed_as_its_first_process_that_has(
    codes: Sequence[int | None], code: int | None, signal: int | None
):
    job = host_job(TWO)
    for pid in range(2):
        job.join(1001 + pid, {}, {})
    answers = [job.leave(1001 + pid, ended) for pid, ended in enumerate(codes)]
    assert [answer["last"] for answer in answers] == [False, True]
    report = answers[1]["report"]
    assert (report["exit_code"], report["signal"]) == (code, signal)


def test_without_a_launcher_the_last_one_leaves_no_other_behind(tmp_path: Path):
    job = host_job(Member("cats", "n1"), to=str(tmp_path))
    for pid in (os.getpid(), 1002):
        job.join(pid, {}, {})
    assert not job.leave(1002, 0)["last"]
    answer = job.leave(os.getpid(), 0)
    assert answer["last"]
    assert "The number of the job's hosts is unknown" in answer["report"]["notes"][0]
    assert (tmp_path / "cats" / "host-n1.json").exists()
