"""Asking a process of its own what might crash or hang: a broken driver, a framework's import, a kernel.

A probe is a script of the standard library in `probes/`. It prints records, one JSON object a line behind `MARK`, as
soon as it knows them, so that one that dies has still told what it saw and what it was at.
"""

from __future__ import annotations

import json
import os
import pkgutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

MARK = "\x1egpuproof "
"""What every record of a probe begins with; what else a framework prints is left aside."""

Record = dict[str, Any]

# Not by path: a script's own folder, or the current one, comes first on sys.path and shadows what frameworks import.
_START = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; exec(compile(sys.argv.pop(1), 'probe', 'exec'))"
)
_TAIL = 20_000
_FAREWELL_S = 2.0


@dataclass(frozen=True)
class Answer:
    """What a probe said.

    Args:
        records: what it told, in order.
        problem: how it ended if not well, in words: `died of SIGSEGV`, `gave no answer within 60 s`; `None` if well.
        hung: whether it was still at it when its time was up.
        error: the end of what it wrote to standard error.
    """

    records: tuple[Record, ...] = ()
    problem: str | None = None
    hung: bool = False
    error: str = ""

    def of(self, kind: str) -> tuple[Record, ...]:
        """The records whose `kind` is this."""
        return tuple(record for record in self.records if record.get("kind") == kind)

    def one(self, kind: str) -> Record | None:
        """The last record of a kind; `None` without."""
        found = self.of(kind)
        return found[-1] if found else None

    @property
    def step(self) -> str | None:
        """What it was at when it ended: the name of the last step that it began."""
        begun = self.one("step")
        return None if begun is None else str(begun["name"])


def ask(
    python: str,
    probe: str,
    *arguments: str,
    environment: Mapping[str, str],
    seconds: float,
) -> Answer:
    """Runs a probe in an interpreter. Never raises for what becomes of it, and never waits longer than it says.

    Args:
        python: the interpreter: the user's, or GPUproof's own.
        probe: the name of a file in `probes/`, without its ending.
        environment: what the probe gets, whole.
        seconds: when to give up.
    """
    source = pkgutil.get_data(__package__ or "gpuproof.gpu", f"probes/{probe}.py")
    if source is None:
        raise ValueError(f"there is no probe called {probe}")
    command = [python, "-c", _START, source.decode(), probe, *arguments]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
        try:
            process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=error,
                start_new_session=True,
            )
        except OSError as problem:
            return Answer(problem=f"could not be started: {problem.strerror or problem}")
        code = wait(process, seconds)
        said = _tail(error)
        output.seek(0)
        records = tuple(parse_records(output.read().decode(errors="replace").split("\n")))
    if code is None:
        return Answer(records, f"gave no answer within {seconds:g} s", hung=True, error=said)
    return Answer(records, _ending(code, records, said), error=said)


def wait(process: subprocess.Popen[Any], seconds: float) -> int | None:
    """The exit code; `None` where time ran out, and the process with all its children was killed.

    A process that sits in a broken driver cannot even be killed: it is left behind rather than waited for.
    """
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        kill(process)
        return None
    except BaseException:
        kill(process)
        raise


def kill(process: subprocess.Popen[Any]) -> None:
    """Ends a process that leads a session of its own, and its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(_FAREWELL_S)
    except (OSError, subprocess.TimeoutExpired):
        pass


def parse_records(lines: Sequence[str]) -> Sequence[Record]:
    """The records among what a probe printed."""
    found: list[Record] = []
    for line in lines:
        start = line.find(MARK)
        if start < 0:
            continue
        try:
            record = json.loads(line[start + len(MARK) :])
        except ValueError:
            continue  # cut off where the probe died
        if isinstance(record, dict):
            found.append(record)
    return found


def own_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which GPUproof's own interpreter finds GPUproof, wherever it was imported from."""
    folder = str(Path(__file__).resolve().parents[2])
    path = environment.get("PYTHONPATH")
    return {**environment, "PYTHONPATH": folder + os.pathsep + path if path else folder}


def _tail(stream: IO[bytes]) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _TAIL))
    return stream.read().decode(errors="replace")


def _ending(code: int, records: Sequence[Record], said: str) -> str | None:
    if code < 0:
        try:
            return f"died of {signal.Signals(-code).name}"
        except ValueError:
            return f"died of signal {-code}"
    if code > 0:
        lines = said.strip().splitlines()
        return f"left with exit code {code}" + (f": {lines[-1].strip()}" if lines else "")
    return None if records else "said nothing legible"
