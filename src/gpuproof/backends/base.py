"""The protocols that every backend implements: `Backend`, `Plan`, `Run` and `RunStore`.

The command line and `gpuproof.run` use nothing else of a backend. A new backend is a package below
`gpuproof.backends` and one line in `gpuproof.backends.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Protocol, Self, TypeVar

from gpuproof.backends.events import Artifact, Event, GpuReadings, Live, Notice, Output, TransferProgress
from gpuproof.backends.record import RunRecord

if TYPE_CHECKING:
    from gpuproof.agent.job import PlannedFlops
    from gpuproof.backends.agent_job.machine import JupyterServer
    from gpuproof.backends.api_call import ApiCall
    from gpuproof.backends.offer import Offer
    from gpuproof.backends.progress import SubmitProgress
    from gpuproof.catalogue.model import ServiceName
    from gpuproof.explain import Explanation, Report
    from gpuproof.jobs.script_job import AnyJob

__all__ = [
    "Artifact",
    "Backend",
    "Event",
    "Flag",
    "GpuReadings",
    "Live",
    "Notice",
    "Output",
    "Plan",
    "PlanOptions",
    "Run",
    "RunStore",
    "TransferProgress",
]


class Run(Protocol):
    """One run."""

    id: str
    backend: str
    is_remote: bool
    """Whether it runs on another machine, so that its state changes slowly and its results have to be pulled."""
    can_stop_at_once: bool
    """Whether `stop(at_once=True)` is faster than `stop()`."""
    address_label: str
    """What `address` is: `folder` or `console`."""
    instance_type: str | None
    """The instance type that it was submitted to; `None` if that takes a request to find out."""

    @property
    def cli_name(self) -> str:
        """The arguments that name it on the command line: its id, with `--region` where that is needed."""
        ...

    @property
    def record(self) -> RunRecord:
        """Its current state.

        Raises:
            RunNotFound: it was removed.
        """
        ...

    @property
    def verdict(self) -> dict[str, Any] | None:
        """The content of `verdict.json`; `None` while the script runs, or if there is no verdict."""
        ...

    @property
    def address(self) -> str:
        """Where a user can inspect it: a folder, or an address in the AWS console."""
        ...

    @property
    def lacked_capacity(self) -> bool:
        """Whether it failed before it started because the backend had no machine of its instance type."""
        ...

    def artifacts(self) -> list[Artifact]:
        """The results that exist so far."""
        ...

    def follow(self, *, offset: int = 0, live: bool = False, host: str | None = None) -> Iterator[Event]:
        """Yield its events until it has ended; the last event is its final record.

        Args:
            offset: bytes of its output to skip at the beginning.
            live: also yield `Live` samples.
            host: only the output of this host; of all hosts if None, each line with its host's name if there are several.
        """
        ...

    def read_gpus(self) -> GpuReadings | None:
        """What its GPUs did lately; `None` if the `Live` samples of `follow` have that, or if there is nothing to read.

        Raises:
            GPUproofError: AWS refused, or could not be reached.
        """
        ...

    def write_log(self, sink: BinaryIO, *, since: float | None = None, host: str | None = None) -> int:
        """Write the output so far and return its length in bytes, including what was left out.

        Args:
            since: leave out what was printed before this time, in seconds since the epoch.
            host: as for `follow`.

        Raises:
            UsageError: it has no such host.
        """
        ...

    def wait(self) -> RunRecord:
        """Block until it has ended and return its final record."""
        ...

    def stop(self, *, at_once: bool = False) -> None:
        """Request that it stops, without waiting for its end. A run that has ended is not changed."""
        ...

    def pull(
        self, destination: Path, *, extract: bool = False, progress: TransferProgress | None = None
    ) -> list[Path]:
        """Copy its artifacts, verdict and logs into a folder.

        Args:
            destination: created if needed.
            extract: unpack each archive into a folder of its name.
            progress: called during downloads.

        Returns:
            The files and folders that were created.

        Raises:
            UsageError: it has not ended.
            GPUproofError: an archive has members outside its folder, or the disk is full.
        """
        ...

    def deliver(self, job: AnyJob, *, progress: TransferProgress | None = None) -> list[Path]:
        """Copy results to the local folders that the job names, unless the agent has already done that.

        Returns:
            The files and folders that were created.

        Raises:
            UsageError: it has not ended.
            GPUproofError: the disk is full.
        """
        ...

    def remove(self) -> str:
        """Delete the files of the run and return a summary of what was deleted.

        Raises:
            UsageError: it has not ended.
        """
        ...

    def jupyter(self) -> JupyterServer | None:
        """Its Jupyter server; `None` if it has none, or not yet.

        Raises:
            GPUproofError: AWS refused.
        """
        ...

    def explanations(self) -> tuple[Explanation, ...]:
        """Known errors that explain its failure, the root cause first; empty if it did not fail."""
        ...

    def report(self, instance_type: str | None = None, region: str | None = None) -> Report:
        """The report on its logs, whether it failed or not.

        Args:
            instance_type: assume that it ran on this type; the known one if None.
            region: assume that it ran in this region; the known one if None.
        """
        ...


class RunStore(Protocol):
    """The runs of one backend."""

    backend: str

    @property
    def notes(self) -> Sequence[str]:
        """Remarks for the user on the last listing: the runs that it left out because they could not be read."""
        ...

    def records(self) -> Iterator[RunRecord]:
        """All runs, newest first."""
        ...

    def newest(self, count: int) -> tuple[list[RunRecord], int]:
        """The newest `count` runs and all that have not ended, newest first; and the number of runs left out."""
        ...

    def find(self, name: str | None) -> RunRecord:
        """Look up a run by its id, by the beginning or end of its id, or by its job's name (the newest such run).

        Args:
            name: the newest run of all if None.

        Raises:
            RunNotFound: no run, or more than one, matches.
        """
        ...

    def run(self, record: RunRecord) -> Run:
        """The run of a record."""
        ...


class Plan(Protocol):
    """What a run will do, decided before anything is created."""

    @property
    def job(self) -> AnyJob:
        """The job, with absolute paths."""
        ...

    @property
    def run_id(self) -> str | None:
        """The id of the first run; `None` if it is assigned on submission."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know before the run starts."""
        ...

    @property
    def offer(self) -> Offer | None:
        """What its first instance type costs; `None` on a backend that costs nothing."""
        ...

    @property
    def max_usd(self) -> float | None:
        """The highest possible cost of a run, on the most expensive of its instance types, in USD; `None` if it is unknown."""
        ...

    def describe(self) -> Iterable[tuple[str, str]]:
        """The plan as labels and texts, including the warnings (label `note`)."""
        ...

    def document(self) -> dict[str, Any]:
        """The plan as JSON, for `--dry-run --format json`."""
        ...

    def files(self) -> Sequence[tuple[str, int]]:
        """The source files that are sent: their names relative to the source folder, and their bytes."""
        ...

    def calls(self) -> Sequence[ApiCall]:
        """The API calls that `Backend.submit` makes, in order; empty for a backend without an API."""
        ...

    def detach_notes(self, run: Run) -> Iterable[str]:
        """What GPUproof does not do for a run that it does not follow."""
        ...


@dataclass(frozen=True)
class Flag:
    """A flag of `gpuproof run` that only one backend takes.

    Args:
        name: such as `--python`.
        reason: why the other backends reject it, as a sentence.
        remedy: what to do on another backend.
        help: its help text; empty if the flag is a setting of the job, which the job's model describes.
        default: its value if it is not given.
        metavar: the name of its value in the help text.
        choices: the values that it takes; any if empty.
    """

    name: str
    reason: str
    remedy: str
    help: str = ""
    default: str | None = None
    metavar: str | None = None
    choices: tuple[str, ...] = ()

    @property
    def destination(self) -> str:
        """The flag's name as a key: `python` for `--python`."""
        return self.name.removeprefix("--").replace("-", "_")


@dataclass(frozen=True)
class PlanOptions:
    """How to plan a run, apart from the job.

    Args:
        fresh: start without an earlier run's checkpoints.
        flags: values of the backend's own flags, by `Flag.destination`.
        check_quota: leave out instance types whose quota is known to be too small, if that takes more requests.
        dry_run: whether the plan is only shown, for which no account is needed.
        wait: whether the run will be followed to its end, so that it must be able to end.
        planned_flops: of a step of the script, if it was planned.
    """

    fresh: bool = False
    flags: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    check_quota: bool = False
    dry_run: bool = False
    wait: bool = False
    planned_flops: PlannedFlops | None = None


P = TypeVar("P", bound=Plan)


class Backend(Protocol[P]):
    """Where jobs run."""

    name: ClassVar[str]
    """The name that `--on` takes."""
    location: ClassVar[str]
    """The name in a sentence, such as `on SageMaker`."""
    is_remote: ClassVar[bool]
    """Whether looking at its runs takes a network connection."""
    has_regions: ClassVar[bool]
    """Whether its runs belong to an AWS region."""
    has_sessions: ClassVar[bool]
    """Whether `gpuproof shell` and tunnels connect to the machines of its runs."""
    service: ClassVar[ServiceName]
    """The AWS service whose instance types its jobs name."""
    flags: ClassVar[tuple[Flag, ...]]
    """The flags of `gpuproof run` that no other backend takes."""

    @classmethod
    def is_configured(cls) -> bool:
        """Whether the user has set it up, so that runs are looked for there without `--on`."""
        ...

    @classmethod
    def open(
        cls,
        *,
        region: str | None = None,
        profile: str | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> Self:
        """The backend, ready to use; no request is made yet.

        Args:
            region: the AWS region; the user's default if None. Ignored by a backend without regions.
            profile: the AWS profile; the user's default if None.
            notify: called with what is being waited for, when requests take long; by default that is printed.
        """
        ...

    def plan(self, job: AnyJob, options: PlanOptions | None = None) -> P:
        """Decide everything about a run, without creating anything.

        Args:
            job: with absolute paths.

        Raises:
            GPUproofError: the job cannot run on this backend.
        """
        ...

    def prepare(self, plan: P, progress: SubmitProgress) -> P:
        """Do what has to happen before the submission, such as downloading inputs, and return the updated plan."""
        ...

    def submit(self, plan: P, progress: SubmitProgress) -> Iterator[Run]:
        """Start the run. If it turns out to lack capacity, the next iteration starts another on the next instance type.

        Wait for the end of a run before the next iteration. The last run is the result.

        Raises:
            NoCapacity: no instance type of the plan is available.
            GPUproofError: the run could not be started; what was created has been deleted.
        """
        ...

    def runs(self) -> RunStore:
        """The runs of this backend."""
        ...
