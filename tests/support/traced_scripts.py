"""Runs scripts under the tracer, in a process of their own, as `gpuproof plan` does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gpuproof.trace.document import Trace, TraceFailure, read_trace

_TIMEOUT_S, _TRACING_S = 1500.0, "1200"
"""A busy machine takes a minute to import PyTorch, and ten times as long for the rest."""


def traced(folder: Path, script: str, *words: str, arguments: tuple[str, ...] = ()) -> Trace | TraceFailure:
    """The trace of a script, or why there is none.

    Args:
        folder: where it is and runs.
        words: the tracer's options.
        arguments: the script's own.
    """
    (folder / "train.py").write_text(script)
    output, scratch = folder.parent / f"{folder.name}.json", folder.parent / f"{folder.name}-scratch"
    scratch.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "gpuproof.trace", "--output", str(output), "--scratch", str(scratch)]
    done = subprocess.run(
        [*command, "--timeout", _TRACING_S, *words, "--", "train.py", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    assert output.exists(), done.stderr
    return read_trace(output.read_text())


def trace_of(folder: Path, script: str, *words: str, arguments: tuple[str, ...] = ()) -> Trace:
    """The trace of a script that must be traced."""
    found = traced(folder, script, *words, arguments=arguments)
    assert isinstance(found, Trace), found
    return found


def failure_of(folder: Path, script: str, *words: str) -> TraceFailure:
    """Why a script cannot be traced, which must be so."""
    found = traced(folder, script, *words)
    assert isinstance(found, TraceFailure), found
    return found
