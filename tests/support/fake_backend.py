"""A third backend, which runs nothing: its runs are records in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.base import (
    Artifact,
    Event,
    Flag,
    Output,
    PlanOptions,
    Run,
    TransferProgress,
)
from gpuproof.backends.errors import NoCapacity, UnavailableType
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.record import RunRecord, newest_records
from gpuproof.errors import RunNotFound
from gpuproof.explain import Explanation, Report
from gpuproof.jobs.models.script_jobs import Job


@dataclass(frozen=True)
class FakePlan:
    """A plan with one warning and one call; a job with fallbacks lacks capacity first."""

    job: Job
    queue: str | None
    run_id: str | None = "fake-1"
    warnings: tuple[str, ...] = ("nothing really runs",)
    offer: None = None
    max_usd: ClassVar[float | None] = None

    def describe(self) -> Iterable[tuple[str, str]]:
        return [("queue", str(self.queue)), *(("note", text) for text in self.warnings)]

    def document(self) -> dict[str, Any]:
        return {"version": 1, "queue": self.queue}

    def files(self) -> list[tuple[str, int]]:
        return [("train.py", 19)]

    def calls(self) -> tuple[ApiCall, ...]:
        return (ApiCall("fake", "start", {"Queue": self.queue}, "start the run"),)

    def detach_notes(self, run: Run) -> Iterable[str]:
        return [f"{run.id} is not watched"]


class FakeRun:
    """A run that is over as soon as it is followed, or stopped."""

    backend = "fake"
    is_remote = True
    can_stop_at_once = True
    address_label = "console"
    verdict: dict[str, Any] | None = None

    def __init__(self, run_id: str, instance_type: str | None, *, lacked_capacity: bool = False) -> None:
        self.id = run_id
        self.instance_type = instance_type
        self.lacked_capacity = lacked_capacity
        self.status = "InProgress"
        self.delivered: list[str] = []

    @property
    def cli_name(self) -> str:
        return f"{self.id} --on fake"

    @property
    def address(self) -> str:
        return f"https://fake/{self.id}"

    @property
    def record(self) -> RunRecord:
        return RunRecord.of(
            {
                "id": self.id,
                "job_name": "train",
                "kind": "training",
                "backend": "fake",
                "status": self.status,
                "secondary_status": self.status,
                "created": time.time(),
                "instance_type": self.instance_type,
            }
        )

    def artifacts(self) -> list[Artifact]:
        return []

    def follow(self, *, offset: int = 0, live: bool = False, host: str | None = None) -> Iterator[Event]:
        yield Output(b"hello from the fake\n"[offset:])
        if self.status == "InProgress":
            self.status = "Failed" if self.lacked_capacity else "Completed"
        yield self.record

    def read_gpus(self) -> None:
        return None

    def write_log(self, sink: BinaryIO, *, since: float | None = None, host: str | None = None) -> int:
        return sink.write(b"hello from the fake\n")

    def wait(self) -> RunRecord:
        list(self.follow())
        return self.record

    def stop(self, *, at_once: bool = False) -> None:
        if self.status == "InProgress":
            self.status = "Stopped"

    def pull(
        self, destination: Path, *, extract: bool = False, progress: TransferProgress | None = None
    ) -> list[Path]:
        return [destination]

    def deliver(self, job: Job, *, progress: TransferProgress | None = None) -> list[Path]:
        self.delivered.append(job.name)
        return [Path("delivered")]

    def remove(self) -> str:
        del FakeRuns.known[self.id]
        return "removed"

    def jupyter(self) -> None:
        return None

    def explanations(self) -> tuple[Explanation, ...]:
        return ()

    def report(self, instance_type: str | None = None, region: str | None = None) -> Report:
        raise NotImplementedError


class FakeRuns:
    """The runs that were submitted in this process."""

    backend = "fake"
    notes: tuple[str, ...] = ()
    known: ClassVar[dict[str, FakeRun]] = {}

    def records(self) -> Iterator[RunRecord]:
        return (run.record for run in reversed(self.known.values()))

    def newest(self, count: int) -> tuple[list[RunRecord], int]:
        return newest_records(self.records(), count)

    def find(self, name: str | None) -> RunRecord:
        if name not in self.known:
            raise RunNotFound(f"No run on the fake matches {name}.")
        return self.known[name].record

    def run(self, record: RunRecord) -> FakeRun:
        return self.known[record.id]


class FakeBackend:
    """Implements `gpuproof.backends.base.Backend`."""

    name = "fake"
    location = "on the fake"
    is_remote = True
    has_regions = False
    has_sessions = False
    service = "sagemaker"
    flags = (Flag("--queue", help="the queue", reason="only the fake has queues.", remedy="Remove it."),)

    @classmethod
    def is_configured(cls) -> bool:
        return True

    @classmethod
    def open(
        cls,
        *,
        region: str | None = None,
        profile: str | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> Self:
        return cls()

    def plan(self, job: Job, options: PlanOptions | None = None) -> FakePlan:
        return FakePlan(job, options.flags["queue"] if options else None)

    def prepare(self, plan: FakePlan, progress: SubmitProgress) -> FakePlan:
        progress.transfer("Preparing", 1, 2)
        return plan

    def submit(self, plan: FakePlan, progress: SubmitProgress) -> Iterator[FakeRun]:
        types = [plan.job.instance_type or "fake.large", *plan.job.fallbacks]
        tried: list[UnavailableType] = []
        for number, name in enumerate(types, 1):
            progress.step(f"start on {name}")
            lacks = name == "ml.g6.xlarge"
            run = FakeRuns.known[f"fake-{number}"] = FakeRun(f"fake-{number}", name, lacked_capacity=lacks)
            yield run
            if not lacks:
                return
            tried.append(UnavailableType(name, "CapacityError", "CapacityError: none free."))
            progress.report("note", f"no {name} is free")
        raise NoCapacity("No instance type is available.", "Try again later.", tried)

    def runs(self) -> FakeRuns:
        return FakeRuns()
