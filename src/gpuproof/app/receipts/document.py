"""Builds the receipt of a run from its record and its verdict, the same on every backend."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuproof.agent.verdict import Verdict
from gpuproof.app.receipts.canonical import canonical_json
from gpuproof.backends.advice.carbon import carbon
from gpuproof.errors import UsageError
from gpuproof.timestamps import iso_time
from gpuproof.version import __version__

if TYPE_CHECKING:
    from gpuproof.backends.base import Run
    from gpuproof.backends.record import RunRecord

VERSION = 1

_VERDICT = (
    *("version", "outcome", "reason", "cause", "gpu_requirement_met"),
    *("gpus_expected", "gpus_working", "gpus_present", "driver_version", "cuda_compat"),
    *("seconds", "samples", "throughput", "mfu", "energy"),
)
"""What a receipt has of the verdict, besides the digest of the whole."""
_GPU = (
    *("host", "index", "name", "uuid", "worked", "judged_by", "busy_s", "held_s", "mean_utilization"),
    *("peak_memory", "mean_power_w", "energy_j", "activity"),
)
_DIGEST = "@sha256:"


def receipt_of(run: Run, *, now: float | None = None) -> dict[str, Any]:
    """The receipt of a run that has ended. Paths, arguments and variables of the job are left out: they may be private.

    Args:
        now: in seconds since the epoch.

    Raises:
        UsageError: it has not ended.
    """
    record = run.record
    if not record.has_ended:
        raise UsageError(f"{run.id} has not ended.", remedy=f"gpuproof wait {run.cli_name}")
    verdict = run.verdict
    made: Mapping[str, Any] = record.document.get("provenance") or {}
    return {
        "version": VERSION,
        "created": iso_time(time.time() if now is None else now),
        "run": _run(record),
        "machine": _machine(record),
        "cost": _cost(record),
        "carbon": _carbon(record, verdict),
        "code": _code(made),
        "inputs": made.get("inputs"),
        "image": _image(record.document),
        "versions": {
            "gpuproof": made.get("gpuproof"),
            "receipt": __version__,
            "frameworks": record.document.get("frameworks") or {},
        },
        "verdict": None if verdict is None else verdict_part(verdict),
    }


def verdict_digest(verdict: Mapping[str, Any]) -> str:
    """SHA-256 of a verdict's canonical JSON: how its file is indented does not matter."""
    return hashlib.sha256(canonical_json(verdict)).hexdigest()


def verdict_part(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """What a receipt has of a verdict."""
    return {
        "sha256": verdict_digest(verdict),
        **{name: verdict[name] for name in _VERDICT if name in verdict},
        "gpus": [{name: gpu[name] for name in _GPU if name in gpu} for gpu in verdict.get("gpus", ())],
    }


def _run(record: RunRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "job": record.job_name,
        "kind": record.kind,
        "backend": record.backend,
        "status": record.status,
        "exit_code": record.exit_code,
        "created": iso_time(record.created),
        "started": iso_time(record.started),
        "ended": iso_time(record.ended),
    }


def _machine(record: RunRecord) -> dict[str, Any]:
    return {
        "instance_type": record.instance_type,
        "instance_count": record.instance_count,
        "region": record.document.get("region"),
        "spot": bool(record.document.get("spot")),
    }


def _cost(record: RunRecord) -> dict[str, Any] | None:
    """The cost by list prices; `None` where nothing is billed."""
    if record.billed_seconds is None:
        return None
    return {
        "usd": None if record.cost is None else round(record.cost, 6),
        "is_derived": bool(record.document.get("cost_is_derived")),
        "billed_seconds": record.billed_seconds,
    }


def _carbon(record: RunRecord, verdict: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What the energy of the GPUs caused, by the average of the region's grid; `None` if that is unknown."""
    try:
        found = None if verdict is None else carbon(Verdict.from_json(verdict), record.document.get("region"))
    except ValueError:  # of a newer agent
        return None
    return None if found is None else found.to_json()


def _code(made: Mapping[str, Any]) -> dict[str, Any] | None:
    if "code" not in made:
        return None
    return {**made["code"], "selection": made.get("selection"), "git": made.get("git")}


def _image(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The container image, or the AMI without one; its digest if the job names it by digest or the host has reported it."""
    if not (uri := document.get("container_image") or document.get("image")):
        return None
    return {"uri": uri, "sha256": uri.partition(_DIGEST)[2] or document.get("container_sha256")}
