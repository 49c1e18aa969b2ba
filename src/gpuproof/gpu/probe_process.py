"""Runs probes: scripts in their own process for what can crash or hang, such as a driver, an import or a kernel.

A probe is a script in `probes/` that needs only the standard library. It prints records, one JSON object per line after
`MARK`, as soon as it has them, so that the records of a probe that dies show what it found and at which step it died.
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

from gpuproof.gpu.probe_record import MARK

Record = dict[str, Any]

_RECORD_MODULE = "gpuproof.gpu.probe_record"
# The source, not a path: a script's folder, or the current one, would be first on sys.path and shadow what frameworks
# import. The user's interpreter may not have GPUproof, so the module with `emit` is registered from its source, too.
_START = f"""
import sys, types
sys.path[:] = [path for path in sys.path if path]
record = sys.modules[{_RECORD_MODULE!r}] = types.ModuleType({_RECORD_MODULE!r})
exec(sys.argv.pop(1), record.__dict__)
exec(compile(sys.argv.pop(1), "probe", "exec"))
"""
_MAX_ERROR_BYTES = 20_000
_KILL_WAIT_S = 2.0


@dataclass(frozen=True)
class Answer:
    """Result of a probe.

    Args:
        records: its records, in order.
        problem: how it failed: `died of SIGSEGV`, `did not respond within 60 s`; `None` if it succeeded.
        hung: whether it was killed at the timeout.
    """

    records: tuple[Record, ...] = ()
    problem: str | None = None
    hung: bool = False
    error: str = ""

    def of(self, kind: str) -> tuple[Record, ...]:
        """All records of a kind."""
        return tuple(record for record in self.records if record.get("kind") == kind)

    def one(self, kind: str) -> Record | None:
        """The last record of a kind; `None` if there is none."""
        records = self.of(kind)
        return records[-1] if records else None

    @property
    def step(self) -> str | None:
        """Name of the last step that it began."""
        step = self.one("step")
        return None if step is None else str(step["name"])


def ask(
    python: str,
    probe: str,
    *arguments: str,
    environment: Mapping[str, str],
    seconds: float,
) -> Answer:
    """Run a probe in an interpreter; a failure or timeout of the probe is part of the answer.

    Args:
        python: path of the interpreter: the user's, or GPUproof's own.
        probe: name of a module in `probes/`.
        seconds: timeout.
    """
    sources = [_source("probe_record.py"), _source(f"probes/{probe}.py")]
    command = [python, "-c", _START, *sources, probe, *arguments]
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
        error_text = _read_end(error)
        output.seek(0)
        records = tuple(parse_records(output.read().decode(errors="replace").split("\n")))
    if code is None:
        return Answer(records, f"did not respond within {seconds:g} s", hung=True, error=error_text)
    return Answer(records, _failure(code, records, error_text), error=error_text)


def wait(process: subprocess.Popen[Any], seconds: float) -> int | None:
    """Wait for the exit code; `None` after the timeout, when the process and its children were killed.

    A process blocked in a broken driver cannot be killed: it is abandoned instead of waited for.
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
    """Kill a process that leads its own session, and its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(_KILL_WAIT_S)
    except (OSError, subprocess.TimeoutExpired):
        pass


def parse_records(lines: Sequence[str]) -> Sequence[Record]:
    """Parse the records in a probe's output."""
    found: list[Record] = []
    for line in lines:
        start = line.find(MARK)
        if start < 0:
            continue
        try:
            record = json.loads(line[start + len(MARK) :])
        except ValueError:
            continue  # truncated when the probe died
        if isinstance(record, dict):
            found.append(record)
    return found


def own_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with a PYTHONPATH on which GPUproof's own interpreter finds GPUproof."""
    folder = str(Path(__file__).resolve().parents[2])
    path = environment.get("PYTHONPATH")
    return {**environment, "PYTHONPATH": folder + os.pathsep + path if path else folder}


def _source(path: str) -> str:
    source = pkgutil.get_data(__package__ or "gpuproof.gpu", path)
    if source is None:
        raise FileNotFoundError(f"gpuproof.gpu has no {path}")
    return source.decode()


def _read_end(stream: IO[bytes]) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _MAX_ERROR_BYTES))
    return stream.read().decode(errors="replace")


def _failure(code: int, records: Sequence[Record], error: str) -> str | None:
    if code < 0:
        try:
            return f"died of {signal.Signals(-code).name}"
        except ValueError:
            return f"died of signal {-code}"
    if code > 0:
        lines = error.strip().splitlines()
        return f"exited with code {code}" + (f": {lines[-1].strip()}" if lines else "")
    return None if records else "printed no valid record"
