"""Runs scripts under the tracer, in a process of their own, as `gpuproof plan` does."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence, Set
from pathlib import Path

from gpuproof.trace.document import Trace, TraceFailure, read_trace
from gpuproof.trace.frameworks import frameworks_of
from support.python_processes import start_python

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
    options = ["--output", str(output), "--scratch", str(scratch), "--timeout", _TRACING_S, *words]
    errors = run_tracer([*options, "--", "train.py", *arguments], folder, frameworks_of(folder / "train.py"))
    assert output.exists(), errors
    return read_trace(output.read_text())


def run_tracer(words: Sequence[str], folder: Path, frameworks: Set[str]) -> str:
    """Run `python -m gpuproof.trace` in a folder; returns what it printed.

    Args:
        frameworks: which it will import, of `torch` and `tensorflow`.
    """
    with tempfile.TemporaryFile() as log, open(os.devnull, "rb") as nothing:
        streams = (nothing.fileno(), log.fileno(), log.fileno())
        framework = "tensorflow" if "tensorflow" in frameworks else "torch"
        process = start_python(
            ["-m", "gpuproof.trace", *words], framework, cwd=folder, env=os.environ, streams=streams
        )
        try:
            process.wait(_TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
        log.seek(0)
        return log.read().decode(errors="replace")


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
