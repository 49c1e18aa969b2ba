"""What the runs of every place can do: the protocols that the command line is written against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from gpuproof.backends.record import RunRecord
from gpuproof.errors import RunNotFound

if TYPE_CHECKING:
    from gpuproof.explain import Explanation, Report

LOCAL = "local"
SAGEMAKER = "sagemaker"


@dataclass(frozen=True)
class Output:
    """Some of what the script printed; on one host byte for byte, on several in whole lines with the host before each.

    Args:
        content: the bytes.
    """

    content: bytes


@dataclass(frozen=True)
class Live:
    """How a run stands, for the progress line.

    Args:
        sample: `seconds` since the script started; what else is known of `gpus` (a list of `index`, `utilization` in
            per cent, `memory_used` and `memory_total` in bytes), `cores` (kept busy), `rss` (bytes), `cost` (USD so
            far) and `message` (the place's own words).
    """

    sample: dict[str, Any]


@dataclass(frozen=True)
class Notice:
    """A sentence of the place's own that a person should read, such as that a connection came back.

    Args:
        text: the sentence.
    """

    text: str


Progress = Callable[[str, int, int], None]
"""Told what is brought here, how many of its bytes have come, and how many it has."""

Event = Output | RunRecord | Live | Notice
"""What `Run.follow` gives; a `RunRecord` when the run's state changed."""


@dataclass(frozen=True)
class Artifact:
    """Something that a run left behind.

    Args:
        name: `model.tar.gz`, `output.tar.gz`, or the name of a processing job's output.
        location: a path or an `s3://` address.
        files: how many are in it; `None` where that is not known.
        bytes: the size of its content; `None` where that is not known.
    """

    name: str
    location: str
    files: int | None = None
    bytes: int | None = None


class AmbiguousRun(RunNotFound):
    """Several runs may be meant; the message lists them."""


class Run(Protocol):
    """One run, wherever it is."""

    id: str
    place: str
    can_stop_at_once: bool
    """Whether a stop can be hurried; where not, nothing is gained by waiting for it."""

    @property
    def typed(self) -> str:
        """What to type for it after a verb: its id, and its region where that has to be said."""
        ...

    @property
    def record(self) -> RunRecord:
        """What is known of it now.

        Raises:
            RunNotFound: it was removed.
        """
        ...

    @property
    def verdict(self) -> dict[str, Any] | None:
        """The content of `verdict.json`; `None` while the script runs, or where there is none."""
        ...

    @property
    def where(self) -> str:
        """Where a person can look at it: a folder, or an address in AWS's console."""
        ...

    def artifacts(self) -> list[Artifact]:
        """What it left behind so far."""
        ...

    def follow(self, *, offset: int = 0, live: bool = False) -> Iterator[Event]:
        """Everything that it says until it has ended; the last event is its final record.

        Args:
            offset: bytes of its output to leave out at the beginning.
            live: whether `Live` is wanted too.
        """
        ...

    def write_log(self, sink: BinaryIO) -> int:
        """Write everything that it printed so far; gives how many bytes that were."""
        ...

    def wait(self) -> RunRecord:
        """Return when it has ended."""
        ...

    def stop(self, *, at_once: bool = False) -> None:
        """Ask it to end; the end itself is waited for with `wait` or `follow`. One that has ended stays as it is."""
        ...

    def pull(
        self, destination: Path, *, extract: bool = False, progress: Progress | None = None
    ) -> list[Path]:
        """Copy its artifacts, verdict and logs into a folder.

        Args:
            destination: made if need be.
            extract: unpack the archives, each into a folder of its name.
            progress: told how it goes, where it takes long enough.

        Returns:
            What was made there.

        Raises:
            UsageError: it has not ended.
            GPUproofError: an archive has members that would land outside the folder, or the disk is full.
        """
        ...

    def remove(self) -> str:
        """Delete what it keeps, and say in a few words what was removed.

        Raises:
            UsageError: it has not ended.
        """
        ...

    def explanations(self) -> tuple[Explanation, ...]:
        """What explains its failure, the root first; nothing for a run that did not fail."""
        ...

    def report(self, instance_type: str | None = None, region: str | None = None) -> Report:
        """What its logs say, whether it failed or not.

        Args:
            instance_type: what to take it to have run on; what is known of that if None.
            region: where that is; what is known of that if None.
        """
        ...


class Runs(Protocol):
    """The runs of one place."""

    place: str

    def records(self) -> Iterator[RunRecord]:
        """All runs, newest first."""
        ...

    def find(self, name: str | None) -> RunRecord:
        """The run that a person means: by id, by the beginning or the end of an id, by the newest of a job's name,
        or the newest of all when nothing is said.

        Raises:
            RunNotFound: no run is meant, or it cannot be told which.
        """
        ...

    def run(self, record: RunRecord) -> Run:
        """The run behind a record."""
        ...
