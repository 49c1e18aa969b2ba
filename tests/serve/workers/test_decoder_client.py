"""Large JSON bodies: parsed by a separate process while the workers compute, or by them where it cannot."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.cli_sandbox import gone, until
from support.model_server import Answer, Server, below, serving

pytestmark = pytest.mark.slow

SUMS = """
import os, time
import torch

def model_fn(model_dir):
    return "model"

def predict_fn(data, model):
    if isinstance(data, dict):
        return {"object": sorted(data)}
    while data.numel() == 1 and not os.path.exists(os.environ["GO"]):
        time.sleep(0.01)
    return {"sum": float(data.double().sum()), "shape": list(data.shape), "dtype": str(data.dtype)}
"""
OWN_INPUT = (
    SUMS
    + """
import json
def input_fn(body, content_type):
    return torch.tensor(json.loads(body))
"""
)
ENDED = "the decoder of large bodies has ended"
BUSY = [0]
ROWS = 300


def rows(number: int) -> list[list[int]]:
    """Some 200 kB of JSON."""
    return [[number * 1_000_000 + row * 1_000 + column for column in range(100)] for row in range(ROWS)]


def right(answer: Answer, number: int) -> bool:
    """Whether an answer is that of `rows(number)`: float32 holds these numbers but for their last bits."""
    assert answer.status == 200, answer.body
    document = answer.json
    wanted = sum(map(sum, rows(number)))
    return (
        document["shape"] == [ROWS, 100]
        and document["dtype"] == "torch.float32"
        and abs(document["sum"] / wanted - 1) < 1e-6
    )


class BusyServer:
    """A server whose worker is busy with a request until `go`."""

    def __init__(self, server: Server, go: Path, pool: ThreadPoolExecutor) -> None:
        self.server = server
        self._go = go
        self._pool = pool
        self._asked = 0
        self.first = self.ask(BUSY)
        self.until_all_are_there()

    def ask(self, data: Any, **headers: str) -> Future[Answer]:
        self._asked += 1
        return self._pool.submit(self.server.predict, data, **headers)

    def submit(self, *request: Any) -> Future[Answer]:
        self._asked += 1
        return self._pool.submit(self.server.ask, *request)

    def until_all_are_there(self, but: int = 0) -> None:
        """Wait until the server has all requests except `but` ones that are already answered."""
        self.server.wait_for_requests(self._asked - but)

    def go(self) -> None:
        self._go.touch()

    @property
    def readers(self) -> list[int]:
        """Those that run, and not those that are about to."""
        return [pid for pid in below(self.server.process.pid) if " decoder {" in command(pid)]

    def reader(self) -> int:
        """A reader that reads: the first large body has it started, and one after the other is for it."""
        self.ask(rows(0))
        until(lambda: self.readers, "a reader")
        (pid,) = self.readers
        until(lambda: "numpy" in mapped(pid) and self._reads(pid), "it to read")
        return pid

    def _reads(self, pid: int) -> bool:
        before = woken(pid)
        time.sleep(0.1)
        if woken(pid) != before:
            return False
        self.ask(rows(0))
        time.sleep(0.3)
        return woken(pid) != before


@contextmanager
def busy_server(tmp_path: Path, handler: str = SUMS, **environment: str) -> Iterator[BusyServer]:
    go = tmp_path / "go"
    with (
        serving(tmp_path, handler, GO=str(go), **environment) as server,
        ThreadPoolExecutor(40) as pool,
    ):
        try:
            yield BusyServer(server, go, pool)
        finally:
            go.touch()


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def mapped(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


def woken(pid: int) -> int:
    """How often a process has gone to sleep for want of work."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def test_what_waits_is_read_meanwhile_and_answered_as_ever(tmp_path: Path) -> None:
    with busy_server(tmp_path) as busy:
        pid = busy.reader()
        before = woken(pid)
        several = [busy.ask(rows(number)) for number in range(1, 9)]
        busy.until_all_are_there()
        until(lambda: woken(pid) > before, "the reader to work")
        busy.go()
        assert [right(future.result(), number) for number, future in enumerate(several, 1)] == [True] * 8
        assert busy.readers == [pid]


def test_a_free_predictor_reads_by_itself(tmp_path: Path) -> None:
    with busy_server(tmp_path) as busy:
        busy.go()
        assert busy.first.result().status == 200
        for number in range(1, 4):
            assert right(busy.server.predict(rows(number)), number)
        assert busy.readers == []


@pytest.mark.parametrize(
    ("handler", "data"),
    [(OWN_INPUT, rows(1)), (SUMS, {"a": rows(1)}), (SUMS, [1, 2, 3])],
    ids=["own_input_fn", "an_object", "small"],
)
def test_what_is_none_for_a_reader_starts_none(tmp_path: Path, handler: str, data: Any) -> None:
    with busy_server(tmp_path, handler) as busy:
        several = [busy.ask(data) for _ in range(3)]
        busy.until_all_are_there()
        assert busy.readers == []
        busy.go()
        assert [future.result().status for future in several] == [200] * 3


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ("[" + "1, " * 50_000 + "]", 400, "line 1, column 150002"),
        ("[[1, 2], [3]" + ", [4, 5]" * 20_000 + "]", 400, "differ in length"),
        ('["a", ' + "1, " * 50_000 + "1]", None, None),
    ],
    ids=["cut_off", "ragged", "texts"],
)
def test_what_a_reader_cannot_read_is_judged_as_ever(
    tmp_path: Path, body: str, status: int | None, says: str | None
) -> None:
    with busy_server(tmp_path) as busy:
        busy.reader()
        headers = {"Content-Type": "application/json"}
        waits_for = busy.submit("POST", "/invocations", body, headers)
        busy.until_all_are_there()
        busy.go()
        alone = busy.server.ask("POST", "/invocations", body, headers)
        answer = waits_for.result()
        assert (answer.status, answer.body) == (alone.status, alone.body)
        if status is not None:
            assert answer.status == status
            assert says is not None
            assert says in answer.json["error"]


def test_a_reader_that_dies_takes_no_request_along_and_has_a_successor(tmp_path: Path) -> None:
    with busy_server(tmp_path) as busy:
        pid = busy.reader()
        os.kill(pid, signal.SIGSTOP)
        several = [busy.ask(rows(number)) for number in range(1, 4)]
        busy.until_all_are_there()
        os.kill(pid, signal.SIGKILL)
        until(lambda: ENDED in busy.server.log_text, "its end")
        busy.go()
        assert [right(future.result(), number) for number, future in enumerate(several, 1)] == [True] * 3
    with busy_server(tmp_path / "again") as busy:
        first = busy.reader()
        os.kill(first, signal.SIGKILL)
        until(lambda: ENDED in busy.server.log_text, "its end")
        assert busy.reader() != first


def test_a_reader_that_hangs_is_ended_and_predictors_read(tmp_path: Path) -> None:
    with busy_server(tmp_path) as busy:
        pid = busy.reader()
        os.kill(pid, signal.SIGSTOP)
        several = [busy.ask(rows(number)) for number in range(1, 4)]
        until(lambda: ENDED in busy.server.log_text, "its end")
        assert gone(pid)
        busy.go()
        assert [right(future.result(), number) for number, future in enumerate(several, 1)] == [True] * 3


def test_a_reader_that_dies_before_it_has_read_anything_is_not_started_for_ever(tmp_path: Path) -> None:
    with busy_server(tmp_path) as busy:
        several: list[Future[Answer]] = []
        for count in range(3):
            several.append(busy.ask(rows(count)))
            until(lambda: busy.readers, "a reader")
            for pid in busy.readers:
                os.kill(pid, signal.SIGKILL)
            until(lambda count=count: busy.server.log_text.count(ENDED) == count + 1, "its end")
        several += [busy.ask(rows(number)) for number in range(3, 6)]
        busy.until_all_are_there()
        time.sleep(0.5)
        assert busy.readers == []
        busy.go()
        assert [right(future.result(), number) for number, future in enumerate(several)] == [True] * 6


def test_a_request_waiting_for_a_reader_can_time_out_or_be_cancelled(tmp_path: Path) -> None:
    with busy_server(tmp_path) as busy:
        pid = busy.reader()
        os.kill(pid, signal.SIGSTOP)
        late = busy.ask(rows(1), x_gpuproof_timeout="0.3")
        assert late.result().status == 504
        with busy.server.connect() as client:
            body = json.dumps(rows(2)).encode()
            head = f"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            busy.until_all_are_there(but=0)
        busy.until_all_are_there(but=1)
        os.kill(pid, signal.SIGCONT)
        third = busy.ask(rows(3))
        busy.go()
        assert right(third.result(), 3)


def test_memory_is_given_back_after_many_large_bodies(tmp_path: Path) -> None:
    with busy_server(tmp_path) as busy:
        busy.reader()
        busy.go()
        several = [busy.ask(rows(number)) for number in range(1, 300)]
        assert all(right(future.result(), number) for number, future in enumerate(several, 1))
        descriptors = Path(f"/proc/{busy.server.process.pid}/fd").iterdir()
        shared = next(
            descriptor for descriptor in descriptors if "gpuproof-bodies" in os.readlink(descriptor)
        )
        until(lambda: shared.stat().st_blocks * 512 <= 16 << 20, "its pages to be given back")
