"""The table of backends, and the lookup of runs across all of them.

A backend is imported when it is used, and its module `backend` imports the rest of its package on first use: listing
local runs needs no boto3.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from gpuproof.backends.base import Backend, Run
from gpuproof.backends.errors import AmbiguousRun, failure_group
from gpuproof.errors import GPUproofError, RunNotFound, UsageError

BACKENDS = {
    "local": "gpuproof.backends.local.backend:LocalBackend",
    "sagemaker": "gpuproof.backends.sagemaker.backend:SageMakerBackend",
    "ec2": "gpuproof.backends.ec2.backend:EC2Backend",
}
"""Class of each backend by name, in the order in which runs are looked for. The first is the default."""

CHEAPEST = "cheapest"
"""What `--on` takes besides: the cheapest of `compared_backends` for the job."""


def default_backend() -> str:
    """The name of the backend that runs a job if none is named."""
    return next(iter(BACKENDS))


def load_backend(name: str) -> type[Backend[Any]]:
    """The class of a backend.

    Raises:
        UsageError: there is no backend of that name.
    """
    if name not in BACKENDS:
        raise UsageError(f"Unknown backend '{name}'.", remedy=f"Backends: {', '.join(BACKENDS)}.")
    module, _, attribute = BACKENDS[name].partition(":")
    return getattr(import_module(module), attribute)


def searched_backends(name: str | None = None, region: str | None = None) -> list[type[Backend[Any]]]:
    """The backends in which to look for runs.

    Args:
        name: only this backend.
        region: only backends with regions; without a region, only those that the user has configured.
    """
    if name is not None:
        return [load_backend(name)]
    known = [load_backend(backend) for backend in BACKENDS]
    if region is not None:
        return [backend for backend in known if backend.has_regions]
    return [backend for backend in known if backend.is_configured()]


def compared_backends() -> list[type[Backend[Any]]]:
    """The backends that `--on cheapest` chooses from: those in the user's AWS account."""
    return [backend for name in BACKENDS if (backend := load_backend(name)).has_regions]


def find_run(name: str | None, backend: str | None = None, region: str | None = None) -> Run:
    """Look up a run in each backend, in the order of `BACKENDS`.

    Args:
        name: see `RunStore.find`; the newest run of the first backend that has any if None.
        backend: look only there.
        region: look only in backends with regions, in this one; the user's default if None.

    Raises:
        RunNotFound: no run, or more than one, matches.
    """
    return find_run_in(searched_backends(backend, region), name, region)


def find_run_in(backends: list[type[Backend[Any]]], name: str | None, region: str | None = None) -> Run:
    """Look up a run in some backends; see `find_run`."""
    missing: list[RunNotFound] = []
    failures: dict[str, tuple[list[str], GPUproofError]] = {}
    for backend in backends:
        try:
            runs = backend.open(region=region).runs()
            return runs.run(runs.find(name))
        except AmbiguousRun:
            raise
        except RunNotFound as error:
            missing.append(error)
        except GPUproofError as error:
            # Backends in one account usually fail for the same reason, which is stated once.
            failures.setdefault(failure_group(error), ([], error))[0].append(backend.location)
    if not missing:
        raise next(error for _, error in failures.values())
    if len(missing) == 1 and not failures:
        raise missing[0]
    raise _combined(missing, [*failures.values()])


def newest_run(backends: list[type[Backend[Any]]], region: str | None = None) -> tuple[Run, list[str]]:
    """The run that was created last in any of the backends, and where runs could not be listed, with the reason.

    Raises:
        RunNotFound: there is no run.
    """
    runs: list[Run] = []
    unlisted: list[str] = []
    for backend in backends:
        try:
            store = backend.open(region=region).runs()
            runs.append(store.run(store.find(None)))
        except RunNotFound:
            continue
        except GPUproofError as error:
            unlisted.append(f"Runs {backend.location} could not be listed: {error.message}")
    if not runs:
        return find_run_in(backends, None, region), []  # raises what each backend says
    return max(runs, key=lambda run: run.record.created), unlisted


def reject_foreign_flags(backend: str, given: Mapping[str, str | None]) -> None:
    """Reject flags that belong to another backend.

    Args:
        backend: the name of the backend in use.
        given: values by `Flag.destination`; a flag with its default value counts as not given.

    Raises:
        UsageError: such a flag was given.
    """
    for other in BACKENDS:
        if other == backend:
            continue
        for flag in load_backend(other).flags:
            if given.get(flag.destination, flag.default) != flag.default:
                raise UsageError(f"{flag.name} requires --on {other}: {flag.reason}", remedy=flag.remedy)


def _combined(missing: list[RunNotFound], failures: list[tuple[list[str], GPUproofError]]) -> RunNotFound:
    """One error for all backends: those that lack the run, and those whose runs could not be listed."""
    messages = [error.message for error in missing]
    messages += [
        f"Runs {' and '.join(locations)} could not be listed: {error.message}"
        for locations, error in failures
    ]
    last = failures[-1][1] if failures else missing[-1]
    combined = RunNotFound(" ".join(messages), remedy=last.remedy)
    if failures:
        combined.exit_code = last.exit_code
    combined.__cause__ = last
    return combined
