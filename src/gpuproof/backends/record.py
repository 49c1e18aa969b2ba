"""The state of a run, the same for every backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from gpuproof.agent.state import COMPLETED, ENDED
from gpuproof.backends.hosts import host_names
from gpuproof.errors import ExitCode
from gpuproof.util.humanize import format_usd

NEVER_LAUNCHED = "NeverLaunched"
"""The secondary status of a run whose submission ended before it had a process or an instance."""


@dataclass(frozen=True)
class RunRecord:
    """The state of one run.

    Args:
        kind: `training` or `processing`.
        backend: `local`, `sagemaker` or `ec2`.
        status: `InProgress`, `Stopping`, `Completed`, `Failed` or `Stopped`, as on SageMaker.
        secondary_status: `Starting`, `Downloading`, `Training`, `Uploading`, `MaxRuntimeExceeded` …
        created: seconds since the epoch, as all times.
        exit_code: the script's exit code; 128 + n if signal n killed it.
        failure_reason: why it did not complete.
        verdict: the outcome of the verdict.
        gpu_requirement_met: `False` if a required GPU did no work, `None` if that is unknown.
        document: the whole record, as the backend stores it.
    """

    id: str
    job_name: str
    kind: str
    backend: str
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
    document: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The record of a `run.json`."""
        return cls(
            id=document["id"],
            job_name=document["job_name"],
            kind=document["kind"],
            backend=document["backend"],
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

    def to_json(self) -> dict[str, Any]:
        """The record for users: times are text, and `ended` is null until it has one."""
        from gpuproof.timestamps import iso_time, with_iso_times  # for JSON output only

        return {**with_iso_times(self.document), "ended": iso_time(self.ended)}

    @property
    def reason(self) -> str | None:
        """Why it did not complete: the agent's short reason if there is one, since AWS quotes a whole traceback."""
        if (reason := self.document.get("reason")) is None:
            return self.failure_reason
        code = (self.failure_reason or "").partition(":")[0]
        return f"{code}: {reason}" if code.isalpha() else reason

    @property
    def verdict_text(self) -> str | None:
        """The outcome of the verdict; that of an earlier version, which had no `partly used`, is brought up to date."""
        from gpuproof.agent.verdict import PARTLY_USED, USED  # most commands start faster without it

        in_part = self.verdict == USED and self.gpu_requirement_met is False
        return PARTLY_USED if in_part else self.verdict

    @property
    def status_text(self) -> str:
        """The status, for people: `Failed (never launched)` if there was nothing that could fail."""
        return f"{self.status} (never launched)" if self.secondary_status == NEVER_LAUNCHED else self.status

    @property
    def has_ended(self) -> bool:
        """Whether all its processes have ended."""
        return self.status in ENDED

    @property
    def outcome(self) -> ExitCode:
        """The exit code of `gpuproof run` for a run that ended like this."""
        return run_exit_code(
            self.status,
            gpu_requirement_met=self.gpu_requirement_met,
            stopped_for_unused_gpu=bool(self.document.get("stopped_for_unused_gpu")),
        )

    @property
    def instance_type(self) -> str | None:
        """The instance type, such as `ml.g5.xlarge`, or `g5.xlarge` on EC2; `None` for a local run."""
        return self.document.get("instance_type")

    @property
    def instance_count(self) -> int:
        """The number of instances."""
        return self.document.get("instance_count") or 1

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of its hosts."""
        return host_names(self.instance_count)

    @property
    def billed_seconds(self) -> float | None:
        """Billed seconds of each instance; `None` if nothing is billed, or if that is not known yet."""
        return self.document.get("billed_seconds")

    @property
    def cost(self) -> float | None:
        """The cost so far in USD, at the catalogue's list price; `None` if unknown."""
        return self.document.get("cost_usd")

    @property
    def cost_text(self) -> str:
        """The cost so far: `$1.23`, `~$1.23` if the price is derived from similar ones, `-` if unknown."""
        return ("~" if self.document.get("cost_is_derived") else "") + format_usd(self.cost)

    @property
    def spot_saving(self) -> float | None:
        """The share of the time, from 0 to 1, that was not billed because the instances were spot instances."""
        return self.document.get("spot_saving")

    def seconds(self, now: float) -> float | None:
        """How long the script has run, or ran; `None` before it started."""
        if self.started is None:
            return None
        return (self.ended or now) - self.started


def newest_records(records: Iterable[RunRecord], count: int) -> tuple[list[RunRecord], int]:
    """The newest `count` runs and all that have not ended, newest first; and the number of runs left out."""
    ordered = sorted(records, key=lambda record: (record.created, record.id), reverse=True)
    shown = [*ordered[:count], *(record for record in ordered[count:] if not record.has_ended)]
    return shown, len(ordered) - len(shown)


def run_exit_code(status: str, *, gpu_requirement_met: bool | None, stopped_for_unused_gpu: bool) -> ExitCode:
    """The exit code for a run that ended like this.

    Args:
        status: `Completed`, `Failed` or `Stopped`.
        gpu_requirement_met: whether every GPU that the job asked for did work, by the verdict; `None` if that could
            not be determined.
        stopped_for_unused_gpu: whether it was stopped because it did not use its GPU in time (`if_gpu_unused`).
    """
    if stopped_for_unused_gpu:
        return ExitCode.GPU_UNUSED
    if status != COMPLETED:
        return ExitCode.FAILED
    if gpu_requirement_met is None:
        return ExitCode.UNDECIDED
    return ExitCode.OK if gpu_requirement_met else ExitCode.GPU_UNUSED
