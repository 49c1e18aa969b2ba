"""One container: `python -m gpuproof.emulator.execution.container`, started by `host.py` for each instance.

It is a program of its own because the reaper forks, which the emulator with its many threads must not. Its standard
input carries JSON lines: first what to start, then signals. When that input ends, however it came about, everything in
the container is killed. Standard output is the script's own; standard error carries one JSON line, the outcome.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

from gpuproof.agent.isolation.reaper import Launch, Reaper


def main() -> int:
    """Run one container to its end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Whoever wants the container to end closes its input.
        signal.signal(number, signal.SIG_IGN)
    orders = _Orders()
    spec = orders.first()
    if spec is None:
        return 0
    reaper = Reaper.start(Path(spec["ml"]), ())
    try:
        _tell(_carry_out(reaper, orders, spec))
    except BrokenPipeError:
        pass  # nobody reads the output any more: the emulator is gone
    finally:
        reaper.kill()
        reaper.close()
    return 0


class _Orders:
    """What comes in on standard input."""

    def __init__(self) -> None:
        self._buffer = b""
        self._waiting: list[dict[str, Any]] = []
        self.ended = False

    def first(self) -> dict[str, Any] | None:
        """The first order; None if there never is one."""
        while not self.ended:
            if orders := self.read():
                self._waiting = orders[1:]
                return orders[0]
        return None

    def waiting(self) -> list[dict[str, Any]]:
        """Orders that came together with the first."""
        orders, self._waiting = self._waiting, []
        return orders

    def read(self) -> list[dict[str, Any]]:
        """The orders that can be read now; waits if nothing is there."""
        received = os.read(0, 1 << 20)
        self.ended = not received
        *lines, self._buffer = (self._buffer + received).split(b"\n")
        return [json.loads(line) for line in lines]


def _carry_out(reaper: Reaper, orders: _Orders, spec: dict[str, Any]) -> dict[str, Any]:
    entered = reaper.message()
    if not entered["entered"]:
        return {"no_world": entered["reason"]}
    reaper.launch(Launch(spec["command"], spec["environment"], spec["folder"]))
    started = reaper.message()
    if "refused" in started:
        return {"refused": started["refused"]}
    _obey(reaper, orders.waiting())
    watched = [0, reaper.fileno(), reaper.output]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if reaper.output in ready and not _copy(reaper.output):
            watched.remove(reaper.output)
        if 0 in ready:
            _obey(reaper, orders.read())
            if orders.ended:
                return {"ended": -signal.SIGKILL}
        if reaper.fileno() in ready:
            outcome = reaper.message()
            # Everything that could write has ended: what is in the pipe is the rest.
            while reaper.output in watched and _copy(reaper.output):
                pass
            return outcome


def _obey(reaper: Reaper, orders: list[dict[str, Any]]) -> None:
    for order in orders:
        if "signal" in order:
            reaper.signal(order["signal"])
        else:
            reaper.kill()


def _copy(source: int) -> bool:
    """Copy what is there to standard output; false at its end."""
    part = os.read(source, 1 << 16)
    view = memoryview(part)
    while view:
        view = view[os.write(1, view) :]
    return bool(part)


def _tell(outcome: dict[str, Any]) -> None:
    os.write(2, json.dumps(outcome).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
