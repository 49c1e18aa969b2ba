"""One instance with its container, as the emulator sees it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any


@dataclass(frozen=True)
class Outcome:
    """How a container ended.

    Args:
        code: the exit code as a shell reports it; None if the container could not be started.
        problem: why it could not be started.
        ours: whether that is this machine's fault and not the job's.
    """

    code: int | None
    problem: str = ""
    ours: bool = False


class Host:
    """One instance.

    Args:
        name: `algo-1` and so on.
        folder: its disk; made if need be.
        ended: called from a thread of its own when the container has ended.
    """

    def __init__(self, name: str, folder: Path, ended: Callable[[], None]) -> None:
        self.name = name
        self.folder = folder
        self.ml = folder / "ml"
        self.home = folder / "home"
        for path in (self.ml, self.home):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.outcome: Outcome | None = None
        self.ended_at = 0.0
        self._ended = ended
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], sink: Callable[[IO[bytes]], None]
    ) -> None:
        """Start the container.

        Args:
            command: program and arguments.
            environment: the whole environment.
            sink: reads what the container prints, to its end, in a thread of its own.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gpuproof.emulator.execution.container"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C in the emulator's terminal is the emulator's business.
            start_new_session=True,
        )
        spec = {
            "ml": str(self.ml),
            "command": list(command),
            "environment": dict(environment),
            "folder": "/",
        }
        self._order(spec)
        self._thread = threading.Thread(
            target=self._follow, args=(self._process, sink), name=f"host {self.folder.name}", daemon=True
        )
        self._thread.start()

    def signal(self, number: int) -> None:
        """Send a signal to the container's program."""
        self._order({"signal": number})

    def kill(self) -> None:
        """End the container at once, with everything in it."""
        self._order({"kill": True})

    def join(self) -> None:
        """Wait until the container has ended and all that it printed has been taken."""
        if self._thread is not None:
            self._thread.join()

    def _order(self, order: dict[str, Any]) -> None:
        if self._process is None or self._process.stdin is None:
            return
        # It may have ended just now; its outcome says so.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    def _follow(self, process: subprocess.Popen[bytes], sink: Callable[[IO[bytes]], None]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdin is not None
        try:
            sink(process.stdout)
        finally:
            said = process.stderr.read()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
            process.stdout.close()
            process.stderr.close()
            self.ended_at = time.monotonic()
            self.outcome = _outcome(said)
            self._ended()


def _outcome(said: bytes) -> Outcome:
    try:
        told = json.loads(said.splitlines()[-1])
    except (IndexError, ValueError):
        why = said.decode(errors="replace").strip()[-500:] or "its process was killed"
        return Outcome(None, f"the container was lost: {why}", ours=True)
    if "no_world" in told:
        return Outcome(None, f"this machine allows no private /opt/ml: {told['no_world']}", ours=True)
    if "refused" in told:
        return Outcome(None, told["refused"])
    code = told["ended"]
    return Outcome(code if code >= 0 else 128 - code)
