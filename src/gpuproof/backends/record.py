"""A run as a person sees it, whatever the place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from gpuproof.agent.state import COMPLETED, ENDED
from gpuproof.errors import ExitCode


@dataclass(frozen=True)
class RunRecord:
    """What is known of one run.

    Args:
        id: unique in its place.
        job_name: the job's name.
        kind: `training` or `processing`.
        place: `local` or `sagemaker`.
        status: `InProgress`, `Stopping`, `Completed`, `Failed` or `Stopped`, as SageMaker says it.
        secondary_status: `Starting`, `Downloading`, `Training`, `Uploading`, `MaxRuntimeExceeded` …
        created: seconds since the epoch; so are the other times.
        started: when the script started.
        ended: when the run ended.
        exit_code: the script's, 128 + n where signal n killed it.
        failure_reason: why it did not complete.
        verdict: the verdict's outcome.
        gpu_requirement_met: `False` when a GPU that was required did no work, `None` when that cannot be told.
        notes: what a person should know.
        document: all of it, as the place keeps it.
    """

    id: str
    job_name: str
    kind: str
    place: str
    status: str
    secondary_status: str | None
    created: float
    started: float | None
    ended: float | None
    exit_code: int | None
    failure_reason: str | None
    verdict: str | None
    gpu_requirement_met: bool | None
    notes: tuple[str, ...]
    document: Mapping[str, Any]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The record in a `run.json`."""
        return cls(
            id=document["id"],
            job_name=document["job_name"],
            kind=document["kind"],
            place=document["place"],
            status=document["status"],
            secondary_status=document.get("secondary_status"),
            created=document["created"],
            started=document.get("script_started"),
            ended=document.get("ended"),
            exit_code=document.get("exit_code"),
            failure_reason=document.get("failure_reason"),
            verdict=document.get("verdict"),
            gpu_requirement_met=document.get("gpu_requirement_met", True),
            notes=tuple(document.get("notes", ())),
            document=document,
        )

    @property
    def reason(self) -> str | None:
        """Why it did not complete, in short where the agent said so: AWS quotes a whole traceback."""
        if (said := self.document.get("reason")) is None:
            return self.failure_reason
        code = (self.failure_reason or "").partition(":")[0]
        return f"{code}: {said}" if code.isalpha() else said

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.status in ENDED

    @property
    def outcome(self) -> ExitCode:
        """What `gpuproof` says of it by its exit code, once it has ended."""
        if self.document.get("stopped_for_unused_gpu"):
            return ExitCode.GPU_UNUSED
        if self.status != COMPLETED:
            return ExitCode.FAILED
        if self.gpu_requirement_met is None:
            return ExitCode.UNDECIDED
        return ExitCode.OK if self.gpu_requirement_met else ExitCode.GPU_UNUSED

    @property
    def instance_type(self) -> str | None:
        """What it runs on, such as `ml.g5.xlarge`; `None` on this machine."""
        return self.document.get("instance_type")

    @property
    def instance_count(self) -> int:
        """How many instances it runs on."""
        return self.document.get("instance_count") or 1

    @property
    def billed_seconds(self) -> float | None:
        """The seconds of each instance that are billed; `None` where nothing is, or that is not known yet."""
        return self.document.get("billed_seconds")

    @property
    def cost(self) -> float | None:
        """What it cost so far, in USD by the catalogue's list price; `None` where nobody knows."""
        return self.document.get("cost_usd")

    @property
    def spot_saving(self) -> float | None:
        """The share of the time that was not billed because the instances were spot ones, from 0 to 1."""
        return self.document.get("spot_saving")

    def seconds(self, now: float) -> float | None:
        """How long the script has run, or ran; `None` before it started."""
        if self.started is None:
            return None
        return (self.ended or now) - self.started
