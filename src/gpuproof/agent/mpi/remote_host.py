"""The first host's connection to another one, in a thread of its own."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from gpuproof.agent.mpi.channel import Channel, NotAuthenticated
from gpuproof.agent.mpi.config import MpiConfig
from gpuproof.agent.mpi.events import Events
from gpuproof.agent.ranks.report import RankReport

REACHED, MISSING, ENDED, LOST, MPIRUN, STOP = "reached", "missing", "ended", "lost", "mpirun", "stop"
_REPEAT = 30.0


@dataclass(frozen=True)
class Event:
    """What the main thread waits for: news of a host, the end of mpirun with its code, or SIGTERM."""

    kind: str
    host: str = ""
    code: int = 0


class RemoteHost:
    """One of the other hosts.

    Args:
        events: receives `REACHED` or `MISSING`; then `ENDED` once the host has sent its failures, or `LOST`.
    """

    def __init__(self, host: str, config: MpiConfig, events: Events[Event]) -> None:
        self.failures: list[RankReport] = []
        """Its ranks that failed, known at its end."""
        self._host = host
        self._config = config
        self._events = events
        self._channel: Channel | None = None
        self._over = False
        threading.Thread(target=self._run, daemon=True).start()

    def finish(self, code: int) -> bool:
        """Tell the host that mpirun has ended; returns whether it will answer with `ENDED` or `LOST`."""
        if self._channel is None or self._over:
            return False
        with contextlib.suppress(OSError):  # the other thread reports the loss
            self._channel.send({"finish": code})
        return True

    def close(self) -> None:
        """Close the connection: the host's program ends."""
        if self._channel is not None:
            self._channel.close()

    def _run(self) -> None:
        channel = self._channel = self._reach()
        if channel is None:
            self._events.put(Event(MISSING, self._host))
            return
        self._events.put(Event(REACHED, self._host))
        message: dict[str, Any] | None = None
        with contextlib.suppress(OSError, NotAuthenticated, ValueError):
            message = channel.receive()
        if message is not None:
            self.failures = [RankReport(**failure) for failure in message["failures"]]
        self._over = True
        self._events.put(Event(LOST if message is None else ENDED, self._host))

    def _reach(self) -> Channel | None:
        address = self._config.endpoint(self._host)
        where = f"{self._host} ({address[0]}, port {address[1]})"
        started = told = time.monotonic()
        pause = 0.02
        while True:
            try:
                channel = Channel.connect(address, self._config.secret)
                channel.send({"role": "first"})
                if channel.receive(10.0) is not None:
                    return channel
                why = "it is not part of this job"
            except (OSError, NotAuthenticated, ValueError) as error:
                why = str(error)
            now = time.monotonic()
            if now > started + self._config.patience:
                say(f"{where} did not answer within {self._config.patience:g} s: {why}")
                return None
            if now > told + _REPEAT:
                told = now
                say(f"waiting for {where}: {why}")
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)


def say(text: str) -> None:
    """Write a message to the script's log."""
    print(f"gpuproof: {text}", file=sys.stderr, flush=True)
