"""The newest runs of all backends: `gpuproof ps`, and the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from gpuproof.errors import GPUproofError

if TYPE_CHECKING:
    from gpuproof.backends.base import Backend
    from gpuproof.backends.record import RunRecord

NEWEST = 20
_REMOTE_SECONDS = 30.0
T = TypeVar("T")


@dataclass(frozen=True)
class RunList:
    """Runs, the newest first.

    Args:
        older: the number of runs that are left out.
        backends: where was looked.
        notes: remarks on runs that could not be read.
        failures: where runs could not be listed, and why; several backends in an account usually fail for the same reason.
    """

    records: tuple[RunRecord, ...]
    older: int
    backends: tuple[type[Backend[Any]], ...]
    notes: tuple[str, ...] = ()
    failures: tuple[tuple[tuple[str, ...], GPUproofError], ...] = ()


def list_runs(
    on: str | None = None, region: str | None = None, *, everything: bool = False, count: int = NEWEST
) -> RunList:
    """The newest runs and those in progress.

    Args:
        on: only this backend; all that are configured if None.
        region: of AWS; backends with regions are listed even if they are not configured.
        everything: all runs, however many.
        count: how many of the newest.

    Raises:
        GPUproofError: the only backend, or that of this machine, cannot list its runs.
    """
    from gpuproof.backends.errors import failure_group
    from gpuproof.backends.record import newest_records

    backends = _listed_backends(on, region)
    records: list[RunRecord] = []
    older = 0
    notes: list[str] = []
    failures: dict[str, tuple[list[str], GPUproofError]] = {}
    for backend in backends:
        try:
            found, more, remarks = _list(backend, region, None if everything else count)
        except GPUproofError as error:
            if len(backends) == 1 or not backend.is_remote:
                raise
            failures.setdefault(failure_group(error), ([], error))[0].append(backend.location)
            continue
        records += found
        older += more
        notes += remarks
    records, more = newest_records(records, len(records) if everything else count)
    failed = tuple((tuple(locations), error) for locations, error in failures.values())
    return RunList(tuple(records), older + more, tuple(backends), tuple(notes), failed)


def _listed_backends(on: str | None, region: str | None) -> list[type[Backend[Any]]]:
    from gpuproof.backends.registry import BACKENDS, load_backend

    if on is not None:
        return [load_backend(on)]
    known = [load_backend(name) for name in BACKENDS]
    return [entry for entry in known if entry.is_configured() or (region is not None and entry.has_regions)]


def _list(
    backend: type[Backend[Any]], region: str | None, count: int | None
) -> tuple[list[RunRecord], int, Sequence[str]]:
    """The runs of a backend, the number of older ones, and remarks on runs that could not be read."""

    def request() -> tuple[list[RunRecord], int, Sequence[str]]:
        runs = backend.open(region=region).runs()
        records, older = (list(runs.records()), 0) if count is None else runs.newest(count)
        return records, older, runs.notes

    return _within(_REMOTE_SECONDS, request) if backend.is_remote else request()


def _within(seconds: float, request: Callable[[], T]) -> T:
    """The result of a request within a time limit, so that a slow network does not delay the list of local runs."""
    import queue
    import threading

    from gpuproof.backends.aws import AwsUnreachable

    results: queue.Queue[T | BaseException] = queue.Queue()

    def work() -> None:
        try:
            results.put(request())
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            results.put(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        result = results.get(timeout=seconds)
    except queue.Empty:
        raise AwsUnreachable(
            f"AWS did not answer within {seconds:.0f} s.", remedy="Check the network connection."
        ) from None
    if isinstance(result, BaseException):
        raise result
    return result
