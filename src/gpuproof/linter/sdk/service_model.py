"""Reads the AWS service models of the installed botocore.

The JSON file is read directly, because importing botocore takes longer.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gpuproof.linter.sdk.changes import rows_of


@dataclass(frozen=True)
class Shape:
    """One type of the service model.

    Args:
        name: such as `StoppingCondition`.
        type: `structure`, `list`, `map`, `string`, `integer`, `long`, `float`, `double`, `boolean`, `timestamp`, `blob`.
        item: the shape of a list's items or a map's values.
        key: the shape of a map's keys.
        enum: the allowed values; empty for any.
        pattern: the regular expression that a string must match completely.
        minimum, maximum: limits of a number, or of the length of a string or list.
    """

    name: str
    type: str
    members: Mapping[str, str] = field(default_factory=dict[str, str])
    required: tuple[str, ...] = ()
    item: str | None = None
    key: str | None = None
    enum: tuple[str, ...] = ()
    pattern: str | None = None
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class Operation:
    """One operation of a service.

    Args:
        name: `CreateTrainingJob`.
        input: the shape of its input.
    """

    name: str
    input: Shape
    service: ServiceModel

    def shape(self, *path: str) -> Shape | None:
        """The shape at a path of members (`"[]"` for a list's items, `"{}"` for a map's values); None if there is none."""
        shape: Shape | None = self.input
        for step in path:
            name = None if shape is None else shape.item if step in ("[]", "{}") else shape.members.get(step)
            shape = self.service.shape(name) if name else None
        return shape


@dataclass(frozen=True)
class FormerlyRequired:
    """A member that older versions of botocore require and newer ones do not.

    Args:
        up_to: the last version in the table that requires it.
        optional_from: the first version in the table that does not.
    """

    member: str
    up_to: str
    optional_from: str


class ServiceModel:
    """One service of the installed botocore.

    Args:
        model: its `service-2.json`.
    """

    def __init__(self, model: dict[str, Any]) -> None:
        self._shapes: dict[str, dict[str, Any]] = model.get("shapes", {})
        self._operations: dict[str, dict[str, Any]] = model.get("operations", {})
        self._by_method = {name.lower(): name for name in self._operations}

    def operation(self, method: str) -> Operation | None:
        """An operation by boto3's method name or its own: `create_training_job`, `CreateTrainingJob`."""
        name = self._by_method.get(method.replace("_", "").lower())
        given = self._operations[name].get("input", {}).get("shape") if name else None
        shape = self.shape(given) if given else None
        return Operation(name, shape, self) if name and shape else None

    def shape(self, name: str) -> Shape | None:
        """A shape by name."""
        raw = self._shapes.get(name)
        if raw is None:
            return None
        item = raw.get("member") or raw.get("value") or {}
        return Shape(
            name=name,
            type=raw["type"],
            members={member: each["shape"] for member, each in raw.get("members", {}).items()},
            required=tuple(raw.get("required", ())),
            item=item.get("shape"),
            key=raw.get("key", {}).get("shape"),
            enum=tuple(raw.get("enum", ())),
            pattern=raw.get("pattern"),
            minimum=raw.get("min"),
            maximum=raw.get("max"),
        )


@cache
def service(name: str = "sagemaker") -> ServiceModel | None:
    """The model of a service; None if botocore or the service is not found."""
    spec = importlib.util.find_spec("botocore")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if files := sorted(Path(folder, "data", name).glob("*/service-2.json*")):
            return ServiceModel(json.loads(_content(files[-1])))
    return None


def botocore_operation(method: str, service_name: str = "sagemaker") -> Operation | None:
    """An operation in the service model of the installed botocore; None if it is not found."""
    model = service(service_name)
    return model.operation(method) if model else None


def formerly_required(operation: str) -> tuple[FormerlyRequired, ...]:
    """Members of a SageMaker operation that older versions of botocore require."""
    return tuple(
        FormerlyRequired(row["member"], row["required_up_to"], row["optional_from"])
        for row in rows_of("botocore_history")
        if row["operation"] == operation
    )


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content
