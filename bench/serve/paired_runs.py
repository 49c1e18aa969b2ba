"""GPUproof compared with loops without a server, each in a fresh process, in turns of a second.

Where a process's memory happens to lie makes a model's pace differ by some per cent from one process to the next, a loop
in PyTorch over single images is 8 % slower once it has seen batches of several sizes, and a shared machine's pace of one
minute says nothing of the next one's: many pairs in the same state, and short turns, compare the server.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from . import generators
from .cases import Case, SampleRequest
from .report import Table
from .stack import ONE_THREAD, Stack

_LOOP = Path(__file__).parent / "timed_loop.py"
_TURN_S = 1.0
_TURNS = 5
_CLIENTS = (1, 2)
"""With 2 clients, one request is always waiting; with 1, the predictor is idle while the client reads and sends."""


def measure(
    case: Case,
    model: Path,
    question: SampleRequest,
    start: Callable[[], Stack],
    bounds: Mapping[str, Callable[[], Stack]],
    table: Table,
    scratch: Path,
) -> None:
    """Fill in a table's figures of the loops, one pair after another.

    Args:
        model: its folder.
        start: starts GPUproof.
        bounds: functions that start the baselines with less work than GPUproof, by name.
        scratch: an empty folder.
    """
    for _ in range(case.pairs):
        with ExitStack() as opened:
            stack = start()
            opened.callback(stack.end)
            stack.pause()
            others: dict[str, Stack] = {}
            for name, start_other in bounds.items():
                others[name] = start_other()
                opened.callback(others[name].end)
                others[name].pause()
            loop = opened.enter_context(_Loop(case, model, question, scratch))
            _pair(loop, stack, others, table, scratch)


def _pair(loop: _Loop, stack: Stack, others: Mapping[str, Stack], table: Table, scratch: Path) -> None:
    """The ratios of the median turns."""
    bare: list[float] = []
    with_body: list[float] = []
    with_codecs: list[float] = []
    by_bound: dict[str, list[float]] = {name: [] for name in others}
    served: dict[int, list[float]] = {clients: [] for clients in _CLIENTS}
    for _ in range(_TURNS):
        bare.append(loop.seconds("predict"))
        with_body.append(loop.seconds("body"))
        with_codecs.append(loop.seconds("codecs"))
        stack.go_on()
        for clients, seconds in served.items():
            seconds.append(_seconds(stack, clients, scratch))
        stack.pause()
        for name, other in others.items():
            other.go_on()
            by_bound[name].append(_seconds(other, 1, scratch))
            other.pause()
    table.without_server.append(statistics.median(bare) / statistics.median(with_codecs))
    for name, seconds in by_bound.items():
        table.bounds.setdefault(name, []).append(statistics.median(bare) / statistics.median(seconds))
    for clients, seconds in served.items():
        each = statistics.median(seconds)
        table.beside.setdefault(clients, []).append(statistics.median(bare) / each)
        table.beside_with_bodies.setdefault(clients, []).append(statistics.median(with_body) / each)


def _seconds(stack: Stack, clients: int, scratch: Path) -> float:
    return generators.load(stack.target, clients, _TURN_S, scratch).p50 / clients


class _Loop:
    """A process that predicts for a given time on request, and waits otherwise."""

    def __init__(self, case: Case, model: Path, question: SampleRequest, scratch: Path) -> None:
        item, body = scratch / "item.npy", scratch / "read"
        item.write_bytes(question.npy)
        body.write_bytes(question.body(case))
        command = [sys.executable, "-P", str(_LOOP), str(model), str(item), str(body), case.content_type]
        self._process = subprocess.Popen(
            [*command, str(_TURN_S)],
            env={**os.environ, **ONE_THREAD},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, what: str) -> float:
        """Median seconds of one turn of the loop `predict`, `body` or `codecs`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the loop without a server has ended; what it said stands above")
        return float(line)

    def __enter__(self) -> _Loop:
        return self

    def __exit__(self, *_: object) -> None:
        # Its input has ended: so does it.
        self._process.communicate(timeout=60)
