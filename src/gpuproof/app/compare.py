"""Compares runs, and keeps baselines: `gpuproof compare` and `gpuproof baseline`, and `gpuproof.compare` in Python."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from gpuproof.agent.verdict import Verdict
from gpuproof.backends.base import Run
from gpuproof.backends.registry import find_run
from gpuproof.comparison.baseline import Baseline, BaselineFile
from gpuproof.comparison.comparison import Side, compare_sides
from gpuproof.comparison.limits import COST, MEMORY, SLOWER, check_limits, parse_share
from gpuproof.comparison.measurements import RunMeasurements, measurements
from gpuproof.comparison.result import ComparisonResult
from gpuproof.errors import UsageError
from gpuproof.planning.history.store import HistoryStore

_VERDICT, _RECORD = "verdict.json", "run.json"
_BASELINE = "baseline"

RunLike = str | PathLike[str] | Run


@dataclass(frozen=True)
class CompareRequest:
    """What to compare.

    Args:
        sides: runs of each side: ids, or paths of run folders or of their `verdict.json`; the first side is the reference, unless the
            baseline is.
        baseline: name of the baseline to compare with; empty for the one of the run's job. `None`: only if there is one side.
        file: of the baselines; the project's own if None.
        limits: by name, as shares.
    """

    sides: tuple[tuple[RunLike, ...], ...]
    baseline: str | None = None
    file: Path | None = None
    limits: Mapping[str, float] | None = None
    on: str | None = None
    region: str | None = None


def compare(
    *runs: RunLike | list[RunLike] | tuple[RunLike, ...],
    baseline: str | None = None,
    file: str | PathLike[str] | None = None,
    max_slower: str | float | None = None,
    max_cost: str | float | None = None,
    max_memory: str | float | None = None,
    on: str | None = None,
    region: str | None = None,
) -> ComparisonResult:
    """Compare runs with the first of them, or one run with the baseline, as `gpuproof compare` does.

    Args:
        runs: each is a run, its id, or the path of its folder or of its `verdict.json`; a list of them is one side, whose runs show the noise.
        baseline: compare all of them with the baseline of this name.
        file: with the baselines; that of the project in the working directory if not given.
        max_slower: limit: a text such as `5%`, or a share such as 0.05; the result's `exit_code` is 1 if a run exceeds it by more than noise.
        max_cost: likewise.
        max_memory: likewise, of the fullest GPU.
        on: the backend whose runs are meant.
        region: the AWS region of the runs.

    Raises:
        UsageError: there is no such run or baseline, or a run has not ended.
        GPUproofError: AWS refused, or a file cannot be read.
    """
    given = {SLOWER: max_slower, COST: max_cost, MEMORY: max_memory}
    limits = {name: _share(name, value) for name, value in given.items() if value is not None}
    sides = tuple(tuple(given) if isinstance(given, (list, tuple)) else (given,) for given in runs)
    return compare_runs(
        CompareRequest(sides, baseline, None if file is None else Path(file), limits, on, region)
    )


def compare_runs(request: CompareRequest) -> ComparisonResult:
    """Compare what is asked for.

    Raises:
        UsageError: there is no such run or baseline, or a run has not ended.
        GPUproofError: AWS refused, or a file cannot be read.
    """
    if not all(request.sides) or not request.sides:
        raise UsageError("There is nothing to compare.", remedy="gpuproof compare RUN RUN")
    read = [[_read(run, request.on, request.region) for run in runs] for runs in request.sides]
    sides = [_side([run.measurements for run in runs]) for runs in read]
    if len(request.sides) == 1 or request.baseline is not None:
        file = _file(request.file)
        stored = file.find(request.baseline or None, sides[0].runs[0].job)
        name = _BASELINE if stored.name == sides[0].runs[0].job else f"{_BASELINE} {stored.name}"
        sides.insert(0, Side(name, stored.runs, is_baseline=True))
    comparison = compare_sides(sides)
    verdicts = {run.measurements.run: run.verdict for runs in read for run in runs if run.verdict is not None}
    limits = check_limits(comparison, list((request.limits or {}).items()))
    return ComparisonResult(comparison, limits, verdicts)


def set_baseline(
    runs: Sequence[RunLike],
    name: str | None = None,
    file: Path | None = None,
    on: str | None = None,
    region: str | None = None,
) -> tuple[Baseline, Path]:
    """Store what runs measured as a baseline; returns it with its file.

    Args:
        runs: repetitions of one job.
        name: the job's name if None.

    Raises:
        UsageError: a run did not complete, measured nothing, or has no job whose name the baseline could have.
        GPUproofError: the file cannot be written.
    """
    if not runs:
        raise UsageError("No run is named.", remedy="gpuproof baseline set RUN")
    found = tuple(_read(run, on, region).measurements for run in runs)
    for run in found:
        if not run.is_whole:
            raise UsageError(
                f"{run.run} is no baseline: it ended as {run.status}.", "Choose a completed run."
            )
        if not run.values:
            raise UsageError(f"{run.run} is no baseline: nothing of it was measured.", "Choose another run.")
    job = name or found[0].job
    if job is None:
        raise UsageError("The job's name is unknown.", remedy="gpuproof baseline set RUN --name NAME")
    target = _file(file)
    return target.set(job, found), target.path


def remove_baseline(name: str | None = None, file: Path | None = None) -> tuple[Baseline, Path]:
    """Remove a baseline; returns it with its file.

    Raises:
        UsageError: there is none of this name.
    """
    target = _file(file)
    return target.remove(name), target.path


def read_baselines(file: Path | None = None) -> tuple[dict[str, Baseline], Path]:
    """All baselines by name, and their file."""
    target = _file(file)
    return target.read(), target.path


def _file(path: Path | None) -> BaselineFile:
    return BaselineFile.of_project(Path.cwd()) if path is None else BaselineFile(path)


def _share(name: str, value: str | float) -> float:
    if not isinstance(value, str):
        return float(value)
    try:
        return parse_share(value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}.", remedy=f"{name}='5%'") from error


@dataclass(frozen=True)
class _ReadRun:
    """A run that has ended; its verdict is None if it has none."""

    measurements: RunMeasurements
    verdict: Verdict | None


def _side(runs: Sequence[RunMeasurements]) -> Side:
    first, *others = runs
    more = f" and {len(others)} more" if others else ""
    return Side(f"{first.run}{more}", (first, *others))


def _read(run: RunLike, on: str | None, region: str | None) -> _ReadRun:
    if not isinstance(run, (str, PathLike)):
        return _of_run(run)
    path = Path(run)
    if path.is_dir() and (path / _VERDICT).is_file():
        return _of_files(path / _VERDICT)
    if path.suffix == ".json" and path.is_file():
        return _of_files(path)
    return _of_run(find_run(fspath(run), on, region))


def _of_run(run: Run) -> _ReadRun:
    record = run.record
    if not record.has_ended:
        raise UsageError(f"{run.id} has not ended.", remedy=f"gpuproof wait {run.cli_name}")
    verdict = run.verdict
    read = None if verdict is None else _verdict(verdict, run.id)
    return _ReadRun(measurements(run.id, read, record.document, _planned(run.id)), read)


def _of_files(path: Path) -> _ReadRun:
    """A run's folder, or a copy of its verdict; its `run.json` may be missing."""
    document = _json(path)
    record = path.with_name(_RECORD)
    state = _json(record) if path.name == _VERDICT and record.is_file() else {}
    name = str(state.get("id") or path)
    verdict = _verdict(document, str(path))
    return _ReadRun(measurements(name, verdict, state, _planned(name)), verdict)


def _json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: it is no verdict.json of a run.") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no verdict.json of a run.")
    return found


def _verdict(document: Mapping[str, Any], name: str) -> Verdict:
    try:
        return Verdict.from_json(document)
    except ValueError as error:
        raise UsageError(f"{name}: {error}.", remedy="Name a run, its folder or its verdict.json.") from error


def _planned(run: str) -> Mapping[str, Any] | None:
    """The comparison of a run with its plan, if its script was planned on this machine."""
    store = HistoryStore()
    if not store.path.exists():
        return None
    return next((entry for entry in store.read().comparisons if entry["run"] == run), None)
