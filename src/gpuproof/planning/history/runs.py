"""Records runs of planned scripts, and compares them with their plans when they have ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.agent.contract import hyperparameter_arguments
from gpuproof.agent.job import PlannedFlops
from gpuproof.agent.verdict import Verdict
from gpuproof.backends.registry import find_run
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError, RunNotFound
from gpuproof.planning.history.comparison import compared, measurement
from gpuproof.planning.history.script_key import script_key
from gpuproof.planning.history.store import COMPARISON, RUN, History, HistoryStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuproof.backends.base import Run
    from gpuproof.jobs.script_job import AnyJob


_MOST_READ = 20
"""Newest runs whose verdicts are read, because one on AWS takes some requests."""


@dataclass(frozen=True)
class NotCompared:
    """A run of a planned script that could not be compared.

    Args:
        run: its id.
        reason: why.
    """

    run: str
    reason: str


def record_run(store: HistoryStore, job: AnyJob, run: Run) -> bool:
    """Record a run if its script was planned with these arguments; returns whether it was.

    Args:
        store: of the history.
        job: as submitted.
        run: that was submitted.

    Raises:
        OSError: the history cannot be written.
    """
    history = store.read()
    key = _key(history, job)
    if key is None or history.plan_of(key) is None:
        return False
    if any(entry.get("run") == run.id for entry in history.runs):
        return False
    record = run.record
    entry = {"key": key, "run": run.id, "backend": run.backend, "region": record.document.get("region")}
    store.append(RUN, {**entry, "created": record.created})
    return True


def planned_flops(store: HistoryStore, job: AnyJob) -> PlannedFlops | None:
    """The FLOPs of a step by the newest plan of a job's script with these arguments; `None` without one that has them.

    Args:
        store: of the history.
        job: to be submitted.
    """
    history = store.read()
    key = _key(history, job)
    plan = None if key is None else history.plan_of(key)
    flops = None if plan is None else plan.get("model_flops")
    if plan is None or not flops:
        return None
    # TensorFlow computes float32 as TF32 where the GPU can: https://www.tensorflow.org/api_docs/python/tf/config/experimental/enable_tensor_float_32_execution
    is_tf32 = plan["framework"] == "tensorflow" and plan.get("precision") == "float32"
    return PlannedFlops(
        flops, plan.get("examples"), plan["gpus"], "tf32" if is_tf32 else plan.get("precision")
    )


def _key(history: History, job: AnyJob) -> str | None:
    """What a plan of the job's script has for a key; `None` for a job that cannot have been planned."""
    if job.kind != "training" or not history.plans:
        return None
    words = (*hyperparameter_arguments(job.hyperparameters), *job.arguments)
    try:
        return script_key(Path(job.source_dir) / job.entry_point, words)
    except OSError:
        return None


def compare_runs(store: HistoryStore, catalogue: Catalogue, only: str | None = None) -> list[NotCompared]:
    """Compare the recorded runs that have ended since; returns those that could not be compared, with the reason.

    Args:
        store: of the history.
        catalogue: of GPUs and instances.
        only: the id of one run; all of them if None.

    Raises:
        OSError: the history cannot be written.
    """
    history = store.read()
    done = {comparison["run"] for comparison in history.comparisons}
    reasons: list[NotCompared] = []
    waiting = [run for run in history.runs if run["run"] not in done and only in (None, run["run"])]
    for entry in waiting[-_MOST_READ:]:
        plan = history.plan_of(entry["key"], entry["created"]) or history.plan_of(entry["key"])
        found = "its plan is no longer stored" if plan is None else _compared(plan, entry, catalogue)
        if isinstance(found, str):
            reasons.append(NotCompared(entry["run"], found))
        else:
            store.append(COMPARISON, found)
    return reasons


def _compared(
    plan: Mapping[str, Any], entry: Mapping[str, Any], catalogue: Catalogue
) -> dict[str, Any] | str:
    try:
        run = find_run(entry["run"], entry["backend"], entry["region"])
        record = run.record
        if not record.has_ended:
            return "it has not ended"
        document = run.verdict
        if document is None:
            return "it left no verdict"
        measured = measurement(Verdict.from_json(document), catalogue, record.instance_type)
    except RunNotFound:
        return "it was removed"
    except (GPUproofError, ValueError) as error:
        return f"its verdict cannot be read ({error})"
    return measured if isinstance(measured, str) else compared(plan, entry, measured)
