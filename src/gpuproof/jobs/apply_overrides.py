"""Applies the flags of a command to a job, or makes a job of them; errors name the flag that the user typed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_args

from gpuproof.errors import UsageError
from gpuproof.jobs.distribution.launchers import NONE
from gpuproof.jobs.kinds import KINDS
from gpuproof.jobs.models.ec2 import EC2Settings
from gpuproof.jobs.models.job_model import JobModel
from gpuproof.jobs.models.script_jobs import Job, ProcessingJob, TrainingJob
from gpuproof.jobs.options import CommandOption, KeyNames, Overrides, model_options
from gpuproof.jobs.validation_errors import FieldProblem, InvalidFields

_OF_SPOT = {"retry_spot": "--retry-spot", "rebalance": "--rebalance"}
"""Flags that have an effect with spot capacity only."""

ModelType = TypeVar("ModelType", bound=JobModel)
JobType = TypeVar("JobType", bound=Job)


def override(model: type[ModelType], base: ModelType | None, changes: Overrides) -> ModelType:
    """Returns a job with the values of flags.

    Args:
        base: the job as its file describes it; None for a job that consists of flags alone.
        changes: values of flags by key; texts are parsed by the fields.

    Raises:
        UsageError: a flag is invalid or missing; the message names the flag.
    """
    options = model_options(model)
    data = _changed(model, base, changes, options)
    with flags_named(options):
        job = model.model_validate(data)
        # Commands have better messages about the model, which may also be the name of a run.
        typed = changes.keys() - {"model"}
        if problems := [problem for problem in job.missing_files() if problem.path[0] in typed]:
            raise InvalidFields(problems, model.__name__)
    return job


def override_job(job: JobType, changes: Overrides, folder: Path) -> JobType:
    """Returns a job of `gpuproof run` with the values of flags.

    Args:
        job: as it was read.
        changes: values of flags by key.
        folder: the current directory; relative paths of the flags start here.

    Raises:
        UsageError: a flag is invalid; the message names the flag.
    """
    changes = {key: value for key, value in changes.items() if value not in (None, (), [])}
    options = model_options(*get_args(Job))
    if "hyperparameters" in changes and not isinstance(job, TrainingJob):
        raise UsageError(
            f"-p: {KINDS[job.kind].phrase} has no hyperparameters",
            "pass arguments after --, as in -- --epochs 5" if isinstance(job, ProcessingJob) else None,
        )
    changes |= _distribution(job, changes)
    changes.pop("processes_per_host", None)
    if "include" in changes:
        changes["include"] = [os.path.normpath(pattern) for pattern in changes["include"]]
    data = _changed(type(job), job, changes, options)
    if isinstance(job, ProcessingJob) and "inputs" in changes:
        data["inputs"] = _with_paths(job, _pairs(_by_key(options)["inputs"], changes["inputs"]))
    if "regions" in changes:
        data["ec2"]["regions"] = job.ec2.named_regions(data["ec2"]["regions"])
    with flags_named(options):
        changed = type(job).model_validate(data).with_absolute_paths(folder)
    for key, flag in _OF_SPOT.items():
        value, default = getattr(changed.ec2, key), EC2Settings.model_fields[key].default
        if key in changes and value != default and not changed.resources.spot:
            raise UsageError(f"{flag} has no effect without spot capacity.", remedy="Add --spot.")
    return changed


@contextmanager
def flags_named(options: Mapping[str, CommandOption]) -> Generator[None]:
    """Context in which invalid fields are reported by their flags.

    Raises:
        UsageError: fields are invalid.
    """
    try:
        yield
    except InvalidFields as error:
        sentences = dict.fromkeys(_sentence(problem, options) for problem in error.field_problems)
        raise UsageError("\n".join(sentences)) from None


def _changed(
    model: type[JobModel], base: JobModel | None, changes: Overrides, options: Mapping[str, CommandOption]
) -> dict[str, Any]:
    """The values that a job's file or flags set; keys that neither sets stay unset."""
    data = {} if base is None else _set_values(base)
    given = [option for option in options.values() if option.key in changes]
    for option in given:
        for replaced in (keys for mark in option.fields.values() for keys in mark.replaces):
            _remove(data, replaced.split("."))
    for option in given:
        # A flag of several fields is for the backend that runs the job; a field that the job lacks is an error.
        homes = [keys for keys in option.fields if keys[0] in model.model_fields]
        for keys in homes or [*option.fields][:1]:
            _set(data, keys, option, changes[option.key])
    return data


def _set(data: dict[str, Any], keys: KeyNames, option: CommandOption, value: Any) -> None:
    *above, key = keys
    for name in above:
        part = data.get(name)
        data[name] = dict(part) if isinstance(part, dict) else {} if part is None else _set_values(part)
        data = data[name]
    if option.form == "pairs":
        pairs = _pairs(option, value)
        texts = {name: _json_or_text(text) for name, text in pairs.items()} if option.is_json else pairs
        value = {**(data.get(key) or {}), **texts}
    elif option.form == "list":
        value = (*(data.get(key) or ()), *value) if option.fields[keys].adds else tuple(value)
    elif option.fields[keys].commas:
        value = [word for part in value.split(",") if (word := part.strip())]
    data[key] = value


def _remove(data: dict[str, Any], keys: Sequence[str]) -> None:
    for name in keys[:-1]:
        if data.get(name) is None:
            return
        data[name] = dict(data[name]) if isinstance(data[name], dict) else _set_values(data[name])
        data = data[name]
    data.pop(keys[-1], None)


def _set_values(part: Any) -> dict[str, Any]:
    return {key: getattr(part, key) for key in part.model_fields_set}


def _distribution(job: Job, changes: Overrides) -> Overrides:
    """The launcher and its options: those of the file are kept if its launcher is."""
    launcher, processes = changes.get("distribution"), changes.get("processes_per_host")
    if launcher is None and processes is None:
        return {}
    if not isinstance(job, TrainingJob):
        raise UsageError("--distribution: only training jobs are distributed")
    kept: dict[str, Any] = {} if job.distribution is None else dict(job.distribution)
    launcher = launcher or kept.get("launcher", NONE)
    if kept.get("launcher") != launcher:
        kept = {"launcher": launcher}
    if processes is not None:
        kept["processes_per_host"] = processes
    return {"distribution": kept}


def _with_paths(job: ProcessingJob, sources: Mapping[str, str]) -> dict[str, Any]:
    """The job's inputs with new sources; an existing input keeps its path."""
    mounts = {key: mount.model_dump() for key, mount in job.inputs.items()}
    return {**mounts, **{key: {**mounts.get(key, {}), "source": source} for key, source in sources.items()}}


def _pairs(option: CommandOption, texts: Iterable[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(
                f"{option.shown} '{text}' is not NAME=VALUE",
                f"write, for example, {option.shown} {option.example}",
            )
        pairs[key] = value
    return pairs


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text


_KEY = re.compile(r"`([a-z]+)`|\b([a-z]+(?:_[a-z]+)+)\b")
"""What is a key in a message: in backticks, or several words."""


def _sentence(problem: FieldProblem, options: Mapping[str, CommandOption]) -> str:
    by_field = {keys: option for option in options.values() for keys in option.fields}
    keys = tuple(str(key) for key in problem.missing or problem.path)
    option = by_field.get(keys[:2]) or by_field.get(keys[:1])
    if option is None:
        return problem.sentence()
    if problem.missing:
        return f"{option.shown} is missing: write, for example, {option.shown} {option.example}"
    inner = f" {problem.path[1]}" if option.form == "pairs" and len(problem.path) > 1 else ""
    # After an unknown key comes a hint, such as `; a machine is one host`.
    rest = f":{problem.rest[1:]}" if problem.rest.startswith(";") else problem.rest
    by_key = _by_key(options)
    rest = _KEY.sub(
        lambda word: by_key[key].shown if (key := word[1] or word[2]) in by_key else word[0], rest
    )
    return f"{option.shown}{inner}{rest}"


def _by_key(options: Mapping[str, CommandOption]) -> dict[str, CommandOption]:
    return {option.key: option for option in options.values()}
