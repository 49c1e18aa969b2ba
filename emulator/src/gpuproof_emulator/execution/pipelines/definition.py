"""The definition of a pipeline: its steps, parameters and references.

Source: https://aws-sagemaker-mlops.github.io/sagemaker-model-building-pipeline-definition-JSON-schema/
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof_emulator.job_kinds import PROCESSING_JOB, TRAINING_JOB, TRANSFORM_JOB, JobKind
from gpuproof_emulator.protocol import AwsError

STEP_KINDS = {"Training": TRAINING_JOB, "Processing": PROCESSING_JOB, "Transform": TRANSFORM_JOB}
"""The types of steps that run, and the kind of job that each starts."""
_PART = re.compile(r"\.?(?P<member>[A-Za-z_]\w*)|\['(?P<name>[^']*)'\]|\[(?P<index>\d+)\]")


def _as_boolean(value: Any) -> bool:
    return str(value).lower() == "true"


_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {"Integer": int, "Float": float, "Boolean": _as_boolean}


@dataclass(frozen=True)
class Step:
    """A step that starts a job.

    Args:
        arguments: the request that creates the job, with references.
        after: names of the steps that must succeed first.
    """

    name: str
    kind: JobKind
    arguments: Mapping[str, Any]
    after: frozenset[str]


def parse_definition(text: str) -> tuple[list[Step], dict[str, Mapping[str, Any]]]:
    """The steps in an order in which they can run, and the parameters by name.

    Raises:
        AwsError: it is invalid, or has a step that the emulator does not run.
    """
    try:
        document = json.loads(text)
        steps = [_step(step) for step in document["Steps"]]
        parameters = {parameter["Name"]: parameter for parameter in document.get("Parameters", ())}
    except (ValueError, TypeError, KeyError) as error:
        raise AwsError("ValidationException", f"The pipeline definition is invalid: {error!r}.") from error
    return _in_order(steps), parameters


def parameter_values(parameters: Mapping[str, Mapping[str, Any]], given: Mapping[str, str]) -> dict[str, Any]:
    """The parameters' values in an execution.

    Args:
        given: values of the request, as text.

    Raises:
        AwsError: one is unknown, has no value, or is of another type.
    """
    if unknown := given.keys() - parameters.keys():
        raise AwsError("ValidationException", f"Unknown parameters: {', '.join(sorted(unknown))}.")
    values: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if name not in given and "DefaultValue" not in parameter:
            raise AwsError("ValidationException", f"The parameter {name} has no value.")
        value: Any = given[name] if name in given else parameter["DefaultValue"]
        try:
            values[name] = _CONVERSIONS.get(parameter["Type"], str)(value)
        except ValueError as error:
            raise AwsError("ValidationException", f"{value} is no {parameter['Type']}: {name}.") from error
    return values


def resolve(value: Any, scope: Mapping[str, Any]) -> Any:
    """Replace the references in a step's arguments.

    Args:
        scope: values by their first name: `Parameters`, `Execution` and `Steps`.

    Raises:
        LookupError: a reference leads nowhere.
    """
    if isinstance(value, list):
        return [resolve(item, scope) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"Get"}:
        return _look_up(value["Get"], scope)
    if value.keys() == {"Std:Join"}:
        parts = resolve(value["Std:Join"], scope)
        return str(parts["On"]).join(map(str, parts["Values"]))
    return {name: resolve(item, scope) for name, item in value.items()}


def _step(step: Mapping[str, Any]) -> Step:
    kind = STEP_KINDS.get(step["Type"])
    if kind is None:
        raise AwsError(
            "ValidationException",
            f"This emulator runs steps of the types {', '.join(STEP_KINDS)} only: {step['Name']} is of type {step['Type']}.",
        )
    arguments = step["Arguments"]
    after = {path.split(".")[1] for path in _references(arguments) if path.startswith("Steps.")}
    return Step(step["Name"], kind, arguments, frozenset(after | set(step.get("DependsOn", ()))))


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if value.keys() == {"Get"}:
            yield value["Get"]
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _in_order(steps: list[Step]) -> list[Step]:
    ordered: list[Step] = []
    waiting = list(steps)
    while waiting:
        done = {step.name for step in ordered}
        ready = [step for step in waiting if step.after <= done]
        if not ready:
            names = ", ".join(step.name for step in waiting)
            raise AwsError(
                "ValidationException", f"Steps wait for each other or for a missing step: {names}."
            )
        ordered += ready
        waiting = [step for step in waiting if step not in ready]
    return ordered


def _look_up(path: str, scope: Mapping[str, Any]) -> Any:
    value: Any = scope
    for part in _PART.finditer(path):
        if (name := part["name"]) is not None:
            # Outputs are selected by name.
            value = next(item for item in value if name in (item.get("OutputName"), item.get("InputName")))
        else:
            value = value[part["member"] if part["member"] is not None else int(part["index"])]
    return value
