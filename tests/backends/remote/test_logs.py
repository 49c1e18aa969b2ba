"""The output of a job's hosts as one."""

from __future__ import annotations

import json
import time

import pytest

from gpuproof.agent.environments import sagemaker_container
from gpuproof.agent.log_markers import MESSAGE_MARKER, VERDICT_MARKER
from gpuproof.backends.aws import AwsUnreachable, LogEvent
from gpuproof.backends.remote.logs import LogReader, read_tails
from support.cloudwatch_logs import Streams

GROUP = "/gpuproof/ec2"
VERDICT = {"version": 1, "outcome": "used", "reason": "it worked", "gpus": []}
LINE = VERDICT_MARKER + json.dumps(VERDICT)


def reader(streams: Streams, **options: object) -> LogReader:
    return LogReader(streams, GROUP, "job", **options)  # type: ignore[arg-type]


def text(log: LogReader) -> str:
    return b"".join(log.read()).decode()


@pytest.fixture
def streams() -> Streams:
    return Streams(page=3)


def test_lines_of_one_host_come_as_they_were_printed(streams: Streams) -> None:
    streams.say("algo-1", "one", "two", "three", "four", "", "six")
    assert text(reader(streams)) == "one\ntwo\nthree\nfour\n\nsix\n"


def test_reading_on_returns_what_is_new_and_nothing_twice(streams: Streams) -> None:
    log = reader(streams)
    assert text(log) == ""
    streams.say("algo-1", "one")
    assert text(log) == "one\n"
    assert text(log) == ""
    streams.say("algo-1", "two", "three", "four", "five", at=1)
    assert text(log) == "two\nthree\nfour\nfive\n"
    assert log.bytes_read == len("one\ntwo\nthree\nfour\nfive\n")


class Sparse(Streams):
    """Before each page with lines there comes an empty one, as CloudWatch Logs may have it."""

    def log_events(
        self, group: str, stream: str, token: str | None = None
    ) -> tuple[list[LogEvent], str | None]:
        at, _, empty = (token or "0").partition(" ")
        if not empty and int(at) < len(self.lines[stream]):
            return [], f"{at} empty"
        return super().log_events(group, stream, at)


def test_empty_pages_before_full_ones_are_not_the_end() -> None:
    streams = Sparse(page=2)
    streams.say("algo-1", "one", "two", "three")
    assert text(reader(streams)) == "one\ntwo\nthree\n"


def test_several_hosts_are_interleaved_by_time_with_their_names(streams: Streams) -> None:
    streams.say("algo-1", "a", at=1)
    streams.say("algo-1", "c", at=3)
    streams.say("algo-2", "b", at=2)
    streams.say("algo-2", "d", at=4)
    assert text(reader(streams, several=True)) == "algo-1 | a\nalgo-2 | b\nalgo-1 | c\nalgo-2 | d\n"


def test_the_order_holds_across_pages_of_different_length(streams: Streams) -> None:
    for number in range(20):
        streams.say("algo-1", f"x{number}", at=number)
        if number % 4 == 0:
            streams.say("algo-2", f"y{number}", at=number + 0.5)
    lines = [line.partition(" | ")[2] for line in text(reader(streams, several=True)).splitlines()]
    assert [int(line[1:]) for line in lines] == sorted(int(line[1:]) for line in lines)
    assert len(lines) == 25


def test_a_host_that_comes_later_and_one_that_begins_anew_are_found(streams: Streams) -> None:
    log = reader(streams)
    streams.say("algo-1", "before the interruption")
    assert text(log) == "before the interruption\n"
    streams.say("algo-1", "after it", epoch=2)
    assert text(log) == "after it\n"
    assert log.hosts == ("algo-1",)


def test_another_job_with_a_longer_name_is_not_read(streams: Streams) -> None:
    streams.say("algo-1", "mine")
    streams.say("algo-1", "not mine", job="job-2")
    assert text(reader(streams)) == "mine\n"


def test_a_page_that_does_not_come_loses_and_repeats_nothing(streams: Streams) -> None:
    streams.say("algo-1", *map(str, range(10)))
    log = reader(streams)
    lost = AwsUnreachable("gone")
    streams.faults.extend([None, None, lost, None, lost, None, None, lost])
    got = b""
    for _ in range(10):
        try:
            for piece in log.read():
                got += piece
        except AwsUnreachable:
            continue
    assert got.decode().split() == [str(number) for number in range(10)]


def test_an_interrupt_anywhere_loses_and_repeats_nothing(streams: Streams) -> None:
    streams.say("algo-1", *map(str, range(8)))
    streams.faults.extend([KeyboardInterrupt(), None, None, KeyboardInterrupt(), None, KeyboardInterrupt()])  # type: ignore[list-item]
    log, got = reader(streams), b""
    for _ in range(5):
        try:
            for piece in log.read():
                got += piece
        except KeyboardInterrupt:
            assert log.bytes_read == len(got)
    assert got.decode().split() == [str(number) for number in range(8)]


class TestTheVerdictLine:
    def test_it_begins_as_the_agent_writes_it(self) -> None:
        assert sagemaker_container.verdict_line({"outcome": "used", "gpus": []}).startswith(VERDICT_MARKER)

    def test_it_is_taken_out_and_kept(self, streams: Streams) -> None:
        streams.say("algo-1", "last words", LINE)
        log = reader(streams)
        assert text(log) == "last words\n"
        assert log.verdicts == {"algo-1": VERDICT}

    def test_each_host_has_its_own(self, streams: Streams) -> None:
        streams.say("algo-1", LINE)
        streams.say("algo-2", LINE.replace("used", "idle"))
        log = reader(streams, several=True)
        assert text(log) == ""
        assert {host: one["outcome"] for host, one in log.verdicts.items()} == {
            "algo-1": "used",
            "algo-2": "idle",
        }

    @pytest.mark.parametrize("size", [1, 7, 30])
    def test_one_that_was_cut_into_pieces_is_joined(self, streams: Streams, size: int) -> None:
        streams.say("algo-1", "said")
        rest = LINE[len(VERDICT_MARKER) + 1 :]
        streams.say("algo-1", LINE[: len(VERDICT_MARKER) + 1], at=1)
        streams.say("algo-1", *(rest[at : at + size] for at in range(0, len(rest), size)), at=2)
        log = reader(streams)
        assert text(log) == "said\n"
        assert log.verdicts == {"algo-1": VERDICT}

    @pytest.mark.parametrize("suffix", ["hello", "[1, 2]", '{"outcome" 3}', '{"no": "verdict"}', "{]"])
    def test_a_script_that_prints_the_same_word_keeps_its_line(self, streams: Streams, suffix: str) -> None:
        streams.say("algo-1", VERDICT_MARKER + suffix, "more")
        log = reader(streams)
        assert text(log) == f"{VERDICT_MARKER}{suffix}\nmore\n"
        assert log.verdicts == {}


class TestAgentMessages:
    def test_they_are_taken_out_and_kept_by_host(self, streams: Streams) -> None:
        streams.say("algo-1", "one", f"{MESSAGE_MARKER}it saved no model", "two")
        streams.say("algo-2", f"{MESSAGE_MARKER}it failed", at=1)
        log = reader(streams, several=True)
        assert text(log) == "algo-1 | one\nalgo-1 | two\n"
        assert log.agent_messages == {"algo-1": ("it saved no model",), "algo-2": ("it failed",)}

    def test_what_the_runtime_library_records_in_the_script_is_kept(self, streams: Streams) -> None:
        streams.say("algo-1", "gpuproof: PyTorch runs on the CPU")
        assert text(reader(streams)) == "gpuproof: PyTorch runs on the CPU\n"


class TestTails:
    def test_the_last_lines_and_the_verdict_come_without_reading_the_rest(self, streams: Streams) -> None:
        streams.say("algo-1", *map(str, range(100)), LINE)
        tail = read_tails(streams, GROUP, "job")["algo-1"]  # type: ignore[arg-type]
        assert (tail.lines, tail.whole, tail.verdict) == (("98", "99"), False, VERDICT)
        assert len(streams.asked) == 2

    def test_a_short_log_is_whole(self, streams: Streams) -> None:
        streams.say("algo-1", "only this")
        tail = read_tails(streams, GROUP, "job", pages=5)["algo-1"]  # type: ignore[arg-type]
        assert (tail.lines, tail.whole, tail.verdict) == (("only this",), True, None)

    def test_the_agents_words_are_no_lines_of_it(self, streams: Streams) -> None:
        streams.say("algo-1", "only this", f"{MESSAGE_MARKER}and that")
        tail = read_tails(streams, GROUP, "job", pages=5)["algo-1"]  # type: ignore[arg-type]
        assert (tail.lines, tail.messages) == (("only this",), ("and that",))

    def test_of_a_host_that_began_anew_the_newest_counts(self, streams: Streams) -> None:
        streams.say("algo-1", "old")
        streams.say("algo-1", "new", epoch=2)
        assert read_tails(streams, GROUP, "job")["algo-1"].lines == ("new",)  # type: ignore[arg-type]


@pytest.mark.slow
def test_ten_thousand_lines_a_second_are_kept_up_with() -> None:
    streams = Streams()
    for host in ("algo-1", "algo-2"):
        streams.say(host, *(f"step {number} loss 0.1234" for number in range(100_000)))
    begun = time.process_time()
    got = sum(piece.count(b"\n") for piece in reader(streams, several=True).read())
    assert got == 200_000
    assert time.process_time() - begun < 10.0
