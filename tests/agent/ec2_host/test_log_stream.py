from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from pathlib import Path

from gpuproof.agent.ec2_host.transfer.log_stream import LogStream

# Keeps each request, and has no log group at first.
RECORD = """
folder=$(dirname "$0")
case "$2" in
  create-log-group) touch "$folder/group";;
  create-log-stream) [ -e "$folder/group" ] || { echo 'An error occurred (ResourceNotFoundException) when' >&2; exit 255; };;
  put-log-events) cat "${4#file://}" >> "$folder/events"; echo >> "$folder/events";;
esac
"""


def lines_of(text: bytes, tmp_path: Path, clock: Callable[[], float] = time.time) -> list[tuple[int, str]]:
    """The events with which a text arrives."""
    stream = LogStream(5.0, "/group", "run/algo-1", tmp_path / "copy.log", tmp_path, clock)
    stream.read(io.BufferedReader(io.BytesIO(text)))  # type: ignore[arg-type]
    stream.close(time.sleep)
    assert stream.problem == ""
    requests = [json.loads(line) for line in (tmp_path / "bin" / "events").read_text().splitlines()]
    assert {(request["logGroupName"], request["logStreamName"]) for request in requests} == {
        ("/group", "run/algo-1")
    }
    return [(event["timestamp"], event["message"]) for request in requests for event in request["logEvents"]]


def test_lines_arrive_in_a_new_group_and_on_the_disk(aws: Callable[[str], Path], tmp_path: Path) -> None:
    aws(RECORD)
    text = b"one\n\nthree\r\nlast"
    assert [message for _, message in lines_of(text, tmp_path)] == ["one", " ", "three", "last"]
    assert (tmp_path / "copy.log").read_bytes() == text + b"\n"


def test_events_are_in_order_of_time_also_if_the_clock_is_set_back(
    aws: Callable[[str], Path], tmp_path: Path
) -> None:
    aws(RECORD)
    times = iter([1000.0, 500.0, 2000.0])
    assert lines_of(b"a\nb\nc\n", tmp_path, lambda: next(times)) == [
        (1_000_000, "a"),
        (1_000_000, "b"),
        (2_000_000, "c"),
    ]


def test_a_long_line_becomes_several_events(aws: Callable[[str], Path], tmp_path: Path) -> None:
    aws(RECORD)
    messages = [message for _, message in lines_of(b"x" * 600_000 + b"\nend\n", tmp_path)]
    assert "".join(messages) == "x" * 600_000 + "end"
    assert max(map(len, messages)) <= 262_144 - 26


def test_output_that_cannot_be_sent_is_a_problem_and_stays_on_the_disk(
    aws: Callable[[str], Path], tmp_path: Path
) -> None:
    aws(
        "echo 'An error occurred (AccessDeniedException) when calling the CreateLogStream operation: no' >&2; exit 255"
    )
    stream = LogStream(0.0, "/group", "run/algo-1", tmp_path / "copy.log", tmp_path)
    stream.read(io.BufferedReader(io.BytesIO(b"text\ngpuproof-agent: why\n")))  # type: ignore[arg-type]
    stream.close(time.sleep)
    assert "AccessDeniedException" in stream.problem
    assert (tmp_path / "copy.log").read_bytes() == b"text\ngpuproof-agent: why\n"
    assert stream.messages == ["why"]
