"""One instance and its container: start, signals, output and outcome."""

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

from gpuproof_emulator.execution.container_system import ContainerSystem
from gpuproof_emulator.execution.network import Placement


@dataclass(frozen=True)
class ContainerOutcome:
    """How a container ended.

    Args:
        code: the exit code as a shell reports it; None if the container could not be started.
        problem: why it could not be started, or what happened to it.
        internal: whether the emulator or this machine is the cause, not the job.
    """

    code: int | None
    problem: str = ""
    internal: bool = False


def cannot_start(problem: str) -> str:
    """SageMaker's message for a container that cannot be started."""
    return f"CannotStartContainerError. Please make sure the container can be run: {problem}"


def start_failure(outcome: ContainerOutcome) -> str | None:
    """The FailureReason of a job whose container could not be started; None if it was started."""
    if outcome.code is not None:
        return None
    if outcome.internal:
        return f"InternalServerError: {outcome.problem}"
    return f"AlgorithmError: {cannot_start(outcome.problem)}"


class Host:
    """One instance.

    Args:
        name: `algo-1` and so on.
        folder: its disk; created if necessary.
        on_exit: called from another thread when the container has ended.
    """

    def __init__(self, name: str, folder: Path, on_exit: Callable[[], None]) -> None:
        self.name = name
        self.folder = folder
        self.ml = folder / "ml"
        self.home = folder / "home"
        for path in (self.ml, self.home):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.system = ContainerSystem()
        """What the container has in place of this machine's files, beside `/opt/ml`."""
        self.outcome: ContainerOutcome | None = None
        self.ended_at = 0.0
        """When it ended, in seconds since the epoch, as files' times are."""
        self.stopped_at: float | None = None
        """When it was first asked to end."""
        self._on_exit = on_exit
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None

    @property
    def pid(self) -> int | None:
        """The process id of its container's process; None before it is started."""
        return None if self._process is None else self._process.pid

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        sink: Callable[[IO[bytes]], None],
        placement: Placement,
    ) -> None:
        """Start the container.

        Args:
            command: program and arguments.
            environment: the whole environment.
            sink: reads the container's output to its end, in another thread.
            placement: where it runs.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gpuproof_emulator.execution.container"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C in the terminal must reach only the emulator.
            start_new_session=True,
        )
        spec = {
            "ml": str(self.ml),
            "command": list(command),
            "environment": self.system.environment(environment),
            "system": self.system.to_dict(),
            "folder": "/",
            **placement.to_dict(),
        }
        self._send(spec)
        self._thread = threading.Thread(
            target=self._read_output, args=(self._process, sink), name=f"host {self.folder.name}", daemon=True
        )
        self._thread.start()

    def signal(self, number: int) -> None:
        """Send a signal to the container's program."""
        self.stopped_at = self.stopped_at or time.time()
        self._send({"signal": number})

    def kill(self) -> None:
        """Kill the container with everything in it."""
        self.stopped_at = self.stopped_at or time.time()
        self._send({"kill": True})

    def join(self) -> None:
        """Wait until the container has ended and all of its output was read."""
        if self._thread is not None:
            self._thread.join()

    def _send(self, command: dict[str, Any]) -> None:
        if self._process is None or self._process.stdin is None:
            return
        # It may have just ended; the outcome then shows it.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()

    def _read_output(self, process: subprocess.Popen[bytes], sink: Callable[[IO[bytes]], None]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdin is not None
        try:
            sink(process.stdout)
        finally:
            report = process.stderr.read()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
            process.stdout.close()
            process.stderr.close()
            self.ended_at = time.time()
            self.outcome = _parse_outcome(report)
            self._on_exit()


def _parse_outcome(report: bytes) -> ContainerOutcome:
    try:
        result = json.loads(report.splitlines()[-1])
    except (IndexError, ValueError):
        why = report.decode(errors="replace").strip()[-500:] or "its process was killed"
        return ContainerOutcome(None, f"the container was lost: {why}", internal=True)
    if "isolation_failed" in result:
        return ContainerOutcome(
            None,
            f"this machine does not allow a private /opt/ml: {result['isolation_failed']}",
            internal=True,
        )
    if "network_failed" in result:
        return ContainerOutcome(
            None,
            f"this machine does not allow a network for each host: {result['network_failed']}",
            internal=True,
        )
    if "system_failed" in result:
        return ContainerOutcome(
            None,
            f"this machine does not allow a container with files of its own: {result['system_failed']}",
            internal=True,
        )
    if "launch_failed" in result:
        return ContainerOutcome(None, result["launch_failed"])
    code = result["exit_code"]
    return ContainerOutcome(code if code >= 0 else 128 - code)
