"""Reloading a model without downtime: which workers to start, and which to end when their successors are ready. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuproof.serve.workers.restart_policy import Slot
from gpuproof.serve.workers.worker_client import WorkerClient


@dataclass(frozen=True)
class ReloadPlan:
    """How to reload a model."""

    start: list[Slot]
    kill: list[WorkerClient]


def plan_reload(slots: Sequence[Slot], abandoned: Sequence[Slot]) -> ReloadPlan:
    """Plan the reload of a model.

    Each ready worker gets a successor, and retires when the successor has loaded the model. A worker that is still
    loading is started again, because it may have read the old files. Abandoned slots get a new worker.

    Args:
        slots: the model's slots that have a worker. Those whose worker is to be killed are marked as abandoned.
    """
    plan = ReloadPlan([], [])
    current = [slot for slot in slots if not slot.abandoned]
    with_successor = [slot.replaces for slot in current]
    for slot in current:
        worker = slot.worker
        if worker is None or worker in with_successor:
            continue
        if worker.ready:
            plan.start.append(slot.renewed(replaces=worker))
            continue
        slot.abandoned = True
        plan.kill.append(worker)
        plan.start.append(slot.renewed(replaces=slot.replaces))
    plan.start.extend(slot.renewed() for slot in abandoned)
    return plan


def successor_of(worker: WorkerClient, slots: Iterable[Slot]) -> Slot | None:
    """The slot whose worker is to replace the given one."""
    return next((slot for slot in slots if slot.replaces is worker and not slot.abandoned), None)
