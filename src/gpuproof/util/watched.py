"""Which program judges the GPUs of this process already, so that no second one does."""

from __future__ import annotations

from collections.abc import Mapping

VARIABLE = "GPUPROOF_WATCHED_BY"
"""Variable that a program sets for what it watches, and all descendants inherit."""
RUN, WATCH, RUNTIME = "gpuproof run", "gpuproof watch", "rt.watch()"


def watched_by(environment: Mapping[str, str]) -> str | None:
    """The program that watches a process with these variables: `RUN`, `WATCH`, `RUNTIME`; `None` if there is none."""
    return environment.get(VARIABLE) or None
