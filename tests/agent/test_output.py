from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from gpuproof.agent.output import OutputLog, Sink, TimedSink, appending_to


def copied(content: bytes, to: Path | Sink, piece: int = 1 << 16) -> OutputLog:
    readable, writable = os.pipe()
    log = OutputLog(readable, to if isinstance(to, Sink) else Sink(appending_to(to)))
    log.start()
    for start in range(0, len(content), piece):
        os.write(writable, content[start : start + piece])
    os.close(writable)
    log.join(120)
    assert not log.is_alive()
    return log


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"one line\n",
        b"no end",
        bytes(range(256)) * 50,
        b"x" * 5_000_000 + b"\n",
        b"\r 1%\r 2%\r\n",
    ],
    ids=["nothing", "a line", "no newline", "every byte", "a line of 5 MB", "a progress bar"],
)
def test_every_byte_arrives_in_order(tmp_path: Path, content: bytes) -> None:
    copied(content, tmp_path / "log")
    assert (tmp_path / "log").read_bytes() == content


def test_many_small_writes_arrive_in_order(tmp_path: Path) -> None:
    content = b"".join(b"%d\n" % number for number in range(20_000))
    copied(content, tmp_path / "log", piece=7)
    assert (tmp_path / "log").read_bytes() == content


def test_the_end_of_the_output_is_at_hand(tmp_path: Path) -> None:
    log = copied(b"a" * 200_000 + b"\xffthe end", tmp_path / "log")
    assert log.tail().endswith("\ufffdthe end")
    assert len(log.tail()) == 64 * 1024


def test_it_appends_to_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"installing\n")
    copied(b"training\n", tmp_path / "log")
    assert (tmp_path / "log").read_bytes() == b"installing\ntraining\n"


def test_a_full_disk_cuts_the_log_and_never_the_script(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    sink = Sink(appending_to(full))
    log = copied(b"y" * 3_000_000, sink)
    assert sink.lost_bytes == 3_000_000
    assert sink.lost_reason == "No space left on device"
    assert log.tail().endswith("y")


def test_a_quiet_script_is_heard_at_once(tmp_path: Path) -> None:
    readable, writable = os.pipe()
    log = OutputLog(readable, Sink(appending_to(tmp_path / "log")))
    log.start()
    watcher = subprocess.Popen(
        ["tail", "-n", "+1", "-F", tmp_path / "log"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        os.write(writable, b"hello\n")
        assert watcher.stdout is not None
        timer = threading.Timer(60, watcher.kill)
        timer.start()
        assert watcher.stdout.readline() == b"hello\n"
        timer.cancel()
    finally:
        os.close(writable)
        watcher.kill()
        watcher.communicate()
        log.join(300)


def test_the_length_of_a_log_is_noted_with_its_time(tmp_path: Path) -> None:
    sink = TimedSink(tmp_path / "log", tmp_path / "times")
    (tmp_path / "log").write_bytes(b"earlier\n")
    before = time.time()
    sink.write(b"first\n")
    sink.write(b"second\n")
    sink.close()
    assert (tmp_path / "log").read_bytes() == b"earlier\nfirst\nsecond\n"
    (note, *_) = (tmp_path / "times").read_text().splitlines()
    assert before - 1 <= float(note.split()[0]) <= time.time() + 1
    assert note.split()[1] == "8"


def test_times_that_cannot_be_written_stop_no_output(tmp_path: Path) -> None:
    sink = TimedSink(tmp_path / "log", tmp_path / "missing" / "times")
    sink.write(b"output\n")
    sink.close()
    assert (tmp_path / "log").read_bytes() == b"output\n"
    assert sink.lost_bytes == 0
