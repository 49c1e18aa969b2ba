"""Starts Python programs with a framework imported already, where a new interpreter would make no difference."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from support.fork_server import ForkedProcess, ForkServer, suits

Framework = Literal["torch", "tensorflow"]


def start_python(
    arguments: Sequence[str],
    imported: Framework | None,
    *,
    cwd: str | Path,
    env: Mapping[str, str],
    streams: tuple[int, int, int],
    python: str = sys.executable,
) -> subprocess.Popen[bytes] | ForkedProcess:
    """Start `python ARGUMENTS…` in a session of its own.

    Args:
        imported: what the program may find imported; None for a new interpreter.
        streams: descriptors of its standard input, output and error.
    """
    if imported is not None and suits(python, env):
        return _server(imported).popen(arguments, cwd=cwd, env=env, streams=streams)
    stdin, stdout, stderr = streams
    return subprocess.Popen(
        [python, *arguments],
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


@functools.cache
def _server(framework: Framework) -> ForkServer:
    """The server whose processes have imported the framework, and what the tracer imports before a script runs."""
    names = {
        "torch": ("gpuproof.trace.pytorch.session", "torch._dynamo"),
        "tensorflow": ("gpuproof.trace.tensorflow.session",),
    }
    return ForkServer(framework, "gpuproof.trace.main", *names[framework])
