"""One container: `python -m gpuproof_emulator.execution.container`, started by `host.py` for each instance.

It is a separate program because the reaper forks, which the multi-threaded emulator must not do. Standard input carries
JSON lines: first what to start, then signals. When that input ends for any reason, everything in the container is killed.
Standard output is the script's own; standard error carries one JSON line, the outcome.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

from gpuproof.agent.hosts import HostEntry, enter_host
from gpuproof.agent.isolation.reaper import Launch, Reaper
from gpuproof_emulator.execution.container_system import ContainerSystem, enter_system


def main() -> int:
    """Run one container to its end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The container is ended by closing its input.
        signal.signal(number, signal.SIG_IGN)
    commands = _CommandReader()
    spec = commands.first()
    if spec is None:
        return 0
    if spec["entry"] is not None:
        try:
            enter_host(HostEntry.from_json(spec["entry"]))
        except OSError as error:
            os.write(2, json.dumps({"network_failed": str(error)}).encode() + b"\n")
            return 0
    try:
        enter_system(ContainerSystem(**spec["system"]), on_host=spec["entry"] is not None)
    except OSError as error:
        os.write(2, json.dumps({"system_failed": str(error)}).encode() + b"\n")
        return 0
    reaper = Reaper.start(Path(spec["ml"]), (), spec["addresses"])
    try:
        outcome = _run(reaper, commands, spec)
        os.write(2, json.dumps(outcome).encode() + b"\n")
    except BrokenPipeError:
        pass  # the emulator has ended
    finally:
        reaper.kill()
        reaper.close()
    return 0


class _CommandReader:
    """Reads commands from standard input."""

    def __init__(self) -> None:
        self._buffer = b""
        self._pending: list[dict[str, Any]] = []
        self.ended = False

    def first(self) -> dict[str, Any] | None:
        """The first command; None if the input ends without one."""
        while not self.ended:
            if commands := self.read():
                self._pending = commands[1:]
                return commands[0]
        return None

    def take_pending(self) -> list[dict[str, Any]]:
        """Commands that were read together with the first."""
        commands, self._pending = self._pending, []
        return commands

    def read(self) -> list[dict[str, Any]]:
        """The commands that can be read now; blocks until there is input."""
        received = os.read(0, 1 << 20)
        self.ended = not received
        *lines, self._buffer = (self._buffer + received).split(b"\n")
        return [json.loads(line) for line in lines]


def _run(reaper: Reaper, commands: _CommandReader, spec: dict[str, Any]) -> dict[str, Any]:
    entered = reaper.message()
    if not entered["entered"]:
        return {"isolation_failed": entered["reason"]}
    reaper.launch(Launch(spec["command"], spec["environment"], spec["folder"]))
    started = reaper.message()
    if "refused" in started:
        return {"launch_failed": started["refused"]}
    _execute(reaper, commands.take_pending())
    watched = [0, reaper.fileno(), reaper.output]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if reaper.output in ready and not _copy(reaper.output):
            watched.remove(reaper.output)
        if 0 in ready:
            _execute(reaper, commands.read())
            if commands.ended:
                return {"exit_code": -signal.SIGKILL}
        if reaper.fileno() in ready:
            outcome = reaper.message()
            # All processes that could write have ended: copy the rest of the pipe.
            while reaper.output in watched and _copy(reaper.output):
                pass
            return {"exit_code": outcome["ended"]}


def _execute(reaper: Reaper, commands: list[dict[str, Any]]) -> None:
    for command in commands:
        if "signal" in command:
            reaper.signal(command["signal"])
        else:
            reaper.kill()


def _copy(source: int) -> bool:
    """Copy the available output to standard output; returns false at its end."""
    part = os.read(source, 1 << 16)
    view = memoryview(part)
    while view:
        view = view[os.write(1, view) :]
    return bool(part)


if __name__ == "__main__":
    sys.exit(main())
