"""The settings of DeepSpeed: a JSON file, or a mapping that a script passes to `deepspeed.initialize(config=...)`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses
from gpuproof.linter.analysis.values import Entries, Value, known
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.distribution.launchers import host_count, processes_per_host
from gpuproof.linter.project import Project
from gpuproof.linter.source.span import Unit
from gpuproof.linter.source.test_files import is_test_file


def settings_of_file(unit: Unit) -> Value | None:
    """The settings in a JSON file, each with its line; None if it is none, or does not parse."""
    if unit.kind != "deepspeed" or not unit.path.endswith(".json"):
        return None
    try:
        loaded: Any = json.loads(unit.source)
    except (ValueError, RecursionError):
        return None
    return _value(unit, loaded, 0)[0] if isinstance(loaded, dict) else None


def settings_of_script(script: Module) -> Iterator[Value]:
    """The settings that a script passes to DeepSpeed as a mapping: `deepspeed.initialize(config={...})`."""
    for module in local_modules(script):
        for call in initializations(module):
            for name in ("config", "config_params"):
                value = call.argument(name)
                if value.entries is not None:
                    yield value
        for call in calls_named(module, "TrainingArguments", "Seq2SeqTrainingArguments", "DeepSpeedPlugin"):
            for name in ("deepspeed", "hf_ds_config"):
                value = call.argument(name)
                if value.entries is not None:
                    yield value


def initializations(module: Module) -> list[Call]:
    """The calls of `deepspeed.initialize()` in a module; tests have none."""
    if is_test_file(module.unit):
        return []
    return [call for call in calls_named(module, "initialize") if call.name == "deepspeed.initialize"]


def settings_of_job(project: Project, job: JobDefinition) -> Iterator[Value]:
    """The settings that a job's script certainly uses: the files that its command or its script names."""
    words = (
        {word for word in job.start.arguments if word.endswith(".json")}
        if job.start is not None
        else set[str]()
    )
    words |= {
        text for value in job.hyperparameters.parts.values() if (text := value.text or "").endswith(".json")
    }
    if job.script is not None:
        words |= {
            use.text
            for module in local_modules(job.script)
            for use in find_uses(module, "string")
            if use.text.endswith(".json")
        }
        yield from settings_of_script(job.script)
    names = {word.rpartition("/")[2].rpartition("=")[2] for word in words}
    units = [
        unit for unit in project.workspace.units_of("deepspeed") if unit.path.rpartition("/")[2] in names
    ]
    # Two files of one name may be of two projects.
    if len({unit.path.rpartition("/")[2] for unit in units}) == len(units):
        for unit in units:
            settings = settings_of_file(unit)
            if settings is not None:
                yield settings


def process_count(project: Project, job: JobDefinition) -> int | None:
    """The number of processes that a job starts on all hosts, if its launcher and its instance say so."""
    hosts = host_count(job)
    if hosts is None and job.source == "command" and job.start is not None and job.start.launcher is not None:
        hosts = job.start.launcher.hosts
    each = processes_per_host(job)
    number = each.number
    if number is None and each.is_absent:
        number = gpus_per_host(project, job)
    return int(number) * hosts if number and hosts else None


def count_of(settings: Value, name: str) -> int | None:
    """A number of the settings; None if it is absent, "auto" or unknown."""
    value = settings.at(name)
    number = value.number if value.is_known else None
    return int(number) if number is not None and number > 0 else None


def _value(unit: Unit, loaded: Any, line: int) -> tuple[Value, int]:
    """A value of JSON with the lines of its keys, which are searched from a line on; the line where the search ended."""
    if not isinstance(loaded, dict):
        return known(tuple(map(str, loaded)) if isinstance(loaded, list) else loaded), line  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    entries = Entries()
    items: dict[str, Any] = loaded  # pyright: ignore[reportUnknownVariableType]
    for key, item in items.items():
        found = next(
            (number for number in range(line, len(unit.lines)) if f'"{key}"' in unit.lines[number]), line
        )
        column = max(unit.lines[found].find(f'"{key}"'), 0) + 1
        value, line = _value(unit, item, found)
        span = unit.span(found + 1, column, found + 1, len(unit.lines[found]) + 1)
        entries[key] = value.with_span(span)
    return known(entries), line
