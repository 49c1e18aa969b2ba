"""The logs of several hosts are read as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.agent.paths import RunPaths
from gpuproof.backends.local.host_logs import open_logs

HOSTS = ("algo-1", "algo-2")


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path)
    paths.logs.mkdir()
    return paths


def write(paths: RunPaths, host: str, *parts: tuple[float, str]) -> None:
    """Append output, each part with the time at which it was printed."""
    for moment, text in parts:
        log = paths.log(host)
        length = log.stat().st_size if log.exists() else 0
        with paths.log_times(host).open("a") as times:
            times.write(f"{moment:.1f} {length}\n")
        with log.open("a") as file:
            file.write(text)


def test_lines_are_in_the_order_of_time_with_their_hosts(paths: RunPaths) -> None:
    write(paths, "algo-1", (10, "a\n"), (12, "c\nd\n"))
    write(paths, "algo-2", (11, "b\n"), (13, "e\n"))
    text = b"".join(open_logs(paths, HOSTS).read()).decode()
    assert text == "algo-1 | a\nalgo-2 | b\nalgo-1 | c\nalgo-1 | d\nalgo-2 | e\n"


def test_a_line_is_shown_once_it_is_complete(paths: RunPaths) -> None:
    reader = open_logs(paths, HOSTS)
    write(paths, "algo-1", (10, "first"))
    assert list(reader.read()) == []
    write(paths, "algo-1", (12, " line\nsecond"))
    assert b"".join(reader.read()) == b"algo-1 | first line\n"
    assert b"".join(reader.read(final=True)) == b"algo-1 | second\n"
    assert list(reader.read(final=True)) == []


def test_a_progress_bar_does_not_cover_the_name_of_its_host(paths: RunPaths) -> None:
    write(paths, "algo-1", (10, "10 %\r20 %\r\n"))
    assert b"".join(open_logs(paths, HOSTS).read()) == b"algo-1 | 10 %\ralgo-1 | 20 %\r\n"


def test_a_very_long_line_is_shown_in_pieces(paths: RunPaths) -> None:
    write(paths, "algo-1", (10, "x" * 100_000))
    assert b"".join(open_logs(paths, HOSTS).read()) == b"algo-1 | " + b"x" * 100_000 + b"\n"


def test_what_was_printed_before_a_time_is_left_out(paths: RunPaths) -> None:
    write(paths, "algo-1", (10, "old\n"), (20, "new\n"))
    write(paths, "algo-2", (10, "older\n"))
    reader = open_logs(paths, HOSTS, since=15)
    assert b"".join(reader.read()) == b"algo-1 | new\n"
    assert reader.bytes_read == len("old\n" + "older\n" + "algo-1 | new\n")


def test_one_host_is_shown_as_it_is(paths: RunPaths) -> None:
    write(paths, "algo-2", (10, "half a line"))
    assert b"".join(open_logs(paths, ("algo-2",)).read()) == b"half a line"
