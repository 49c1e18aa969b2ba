"""Looks up what the advice on a run needs: its verdict, earlier runs of its job, the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from gpuproof.agent.state import COMPLETED
from gpuproof.agent.verdict import Verdict
from gpuproof.backends.advice.carbon import Carbon, carbon
from gpuproof.backends.advice.rightsizing import LEAST_SECONDS, Rightsizing, rightsize
from gpuproof.backends.advice.scaling import Measured, ScalingEfficiency, scaling_efficiency
from gpuproof.backends.registry import load_backend
from gpuproof.catalogue import JOB_KINDS, Catalogue
from gpuproof.errors import GPUproofError

if TYPE_CHECKING:
    from gpuproof.backends.base import Run, RunStore
    from gpuproof.backends.record import RunRecord

_MOST_COMPARED, _MOST_COMPARED_REMOTE = 100, 5
"""Earlier runs whose verdicts are read; reading one from AWS takes some requests."""


@dataclass(frozen=True)
class Advice:
    """What follows from a run.

    Args:
        scaling: how well it scaled; `None` if it reported no throughput, or if there is nothing to compare it with.
        rightsizing: cheaper instances; `None` if there are none, or if that is uncertain.
        carbon: what the energy of its GPUs caused; `None` if that is unknown.
    """

    scaling: ScalingEfficiency | None = None
    rightsizing: Rightsizing | None = None
    carbon: Carbon | None = None

    def lines(self) -> Iterator[tuple[str, str]]:
        """Labels and texts for the terminal."""
        if self.scaling is not None:
            yield "scaling", self.scaling.text
        if self.rightsizing is not None:
            yield "advice", self.rightsizing.text
        if self.carbon is not None and self.carbon.is_shown:
            yield "carbon", self.carbon.text

    def to_json(self) -> dict[str, Any]:
        """The keys that it adds to a run's JSON; none if there is nothing to say."""
        document: dict[str, Any] = {}
        if self.scaling is not None:
            document["scaling"] = self.scaling.to_json()
        if self.carbon is not None:
            document["carbon"] = self.carbon.to_json()
        if (found := self.rightsizing) is not None:
            document["advice"] = {
                "instance_type": found.instance.name,
                "instance_count": found.count,
                "saving_usd_per_hour": round(found.saving, 4),
                "saving_is_derived": found.is_derived,
                "slowdown": round(found.slowdown, 3),
                "text": found.text,
            }
        return document


def advise(run: Run, record: RunRecord) -> Advice:
    """The advice on a run that has ended; nothing for most runs."""
    if not record.has_ended or (document := run.verdict) is None:
        return Advice()
    try:
        verdict = Verdict.from_json(document)
    except ValueError:
        return Advice()
    region = record.document.get("region")
    return Advice(_scaling(record, verdict), _rightsizing(record, verdict), carbon(verdict, region))


def _scaling(record: RunRecord, verdict: Verdict) -> ScalingEfficiency | None:
    now = Measured.of(record.id, verdict)
    if now is None or now.gpus < 2:
        return None
    try:
        backend = load_backend(record.backend)
        runs = backend.open(region=record.document.get("region")).runs()
        most = _MOST_COMPARED_REMOTE if backend.is_remote else _MOST_COMPARED
        return scaling_efficiency(now, _earlier(record, runs, most))
    except GPUproofError:
        # Without permission to list runs, the run is shown without the comparison.
        return None


def _earlier(record: RunRecord, runs: RunStore, most: int) -> Iterator[Measured]:
    """Earlier completed runs of the same job, newest first."""
    same = (
        earlier
        for earlier in runs.records()
        if earlier.job_name == record.job_name
        and earlier.kind == record.kind
        and earlier.status == COMPLETED
        and earlier.created < record.created
    )
    for earlier in islice(same, most):
        document = runs.run(earlier).verdict
        try:
            measured = None if document is None else Measured.of(earlier.id, Verdict.from_json(document))
        except ValueError:
            continue
        if measured is not None:
            yield measured


def _rightsizing(record: RunRecord, verdict: Verdict) -> Rightsizing | None:
    region = record.document.get("region")
    is_spot = bool(record.document.get("spot"))  # spot prices change all the time
    if record.instance_type is None or region is None or is_spot or record.kind not in JOB_KINDS:
        return None
    if verdict.seconds < LEAST_SECONDS:
        return None
    return rightsize(
        verdict,
        record.instance_type,
        record.instance_count,
        Catalogue.load(),
        region=region,
        use=record.kind,
    )
