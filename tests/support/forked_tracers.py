"""Traces scripts in forks of an interpreter that has the framework imported: a new one would import it for seconds."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest

from gpuproof.trace.frameworks import frameworks_of
from support.fork_server import ForkedProcess
from support.python_processes import start_python


def fork_tracers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `gpuproof.planning.tracing` start forks until the end of the test."""
    forking = SimpleNamespace(**{**vars(subprocess), "Popen": _start_tracer})
    monkeypatch.setattr("gpuproof.planning.tracing.subprocess", forking)


def _start_tracer(
    command: list[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None,
    stdin: int,
    stdout: IO[bytes],
    stderr: int,
    start_new_session: bool,
) -> subprocess.Popen[bytes] | ForkedProcess:
    assert (stdin, stderr, start_new_session) == (subprocess.DEVNULL, subprocess.STDOUT, True)
    python, *options = command[: command.index("-m")]
    assert options == ["-X", "faulthandler"]
    script = Path(command[command.index("--") + 1])
    with tempfile.TemporaryFile() as nothing:
        return start_python(
            command[command.index("-m") :],
            "tensorflow" if "tensorflow" in frameworks_of(script) else "torch",
            cwd=cwd or Path.cwd(),
            env=env,
            streams=(nothing.fileno(), stdout.fileno(), stdout.fileno()),
            python=python,
        )
