"""Why a run that completed, or that was stopped for it, counts as failed: the requested GPUs did no work, or could not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof.backends.record import RunRecord
from gpuproof.errors import ExitCode
from gpuproof.util.humanize import pluralize

FLAG = "--no-require-gpu accepts this"
ARGUMENT = "require_gpu=False accepts this"


def outcome_text(record: RunRecord, verdict: Mapping[str, Any] | None, accept: str) -> str | None:
    """`FAILED: 3 of 4 requested GPUs did no work (exit code 4; --no-require-gpu accepts this)`.

    Args:
        record: of a run that has ended.
        verdict: content of its `verdict.json`, if there is one.
        accept: how the user accepts it: `FLAG` or `ARGUMENT`.

    Returns:
        None for a run whose status says how it ended.
    """
    code = int(record.outcome)
    if record.outcome == ExitCode.UNDECIDED:
        return f"UNDECIDED: unknown whether the requested GPUs did any work (exit code {code}; {accept})"
    if record.outcome != ExitCode.GPU_UNUSED:
        return None
    if verdict is not None and verdict.get("cause"):
        return f"FAILED: the host's driver is too old for the framework's CUDA: see the verdict (exit code {code})"
    if record.document.get("stopped_for_unused_gpu"):
        return f"FAILED: stopped because no requested GPU did any work (exit code {code})"
    return f"FAILED: {_idle_gpus(verdict or {})} did no work (exit code {code}; {accept})"


def _idle_gpus(verdict: Mapping[str, Any]) -> str:
    expected, working = verdict.get("gpus_expected", 0), verdict.get("gpus_working", 0)
    if expected <= 1:
        return "the requested GPU"
    if not working:
        return f"all {expected} requested GPUs"
    return f"{expected - working} of {pluralize(expected, 'requested GPU')}"
