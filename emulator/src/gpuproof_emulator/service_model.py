"""SageMaker's service model: validates requests and filters the members of responses.

The model is that of the installed botocore, so the emulator is as current as the user's boto3. The wording of broken
constraints is that of the service's responses. Shapes are typed `Any`, because botocore's cached properties are untyped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, cast

from botocore.loaders import Loader
from botocore.model import ListShape, MapShape, OperationModel, ServiceModel, StructureShape
from botocore.validate import ParamValidator

from gpuproof.util.humanize import pluralize
from gpuproof_emulator.protocol import AwsError

_CLASSES = {"L": r"\w", "N": r"\d", "Z": r"\s", "P": r"\W_", "S": r"\W", "M": r"\W"}


@cache
def service_model(name: str = "sagemaker") -> ServiceModel:
    """A service's model in the installed botocore."""
    return ServiceModel(Loader().load_service_model(name, "service-2"), name)


def operation_model(name: str, service: str = "sagemaker") -> OperationModel | None:
    """One operation's model; None if the service has no such operation."""
    model = service_model(service)
    names: list[str] = list(cast(Any, model.operation_names))
    return model.operation_model(name) if name in names else None


def validate(operation: OperationModel, request: Any) -> None:
    """Validate a request against the operation's model, as the service does.

    Raises:
        AwsError: `ValidationException` with every constraint that is broken.
    """
    shape = operation.input_shape
    if shape is None:
        return
    if not isinstance(request, dict):
        raise AwsError("SerializationException", "The body is not a JSON object.")
    broken = list(_broken(shape, request, ""))
    if broken:
        count = pluralize(len(broken), "validation error")
        raise AwsError("ValidationException", f"{count} detected: {'; '.join(broken)}")
    report = ParamValidator().validate(request, shape)
    if report.has_errors():
        raise AwsError("ValidationException", report.generate_report())


def filter_members(shape: Any, value: Any) -> Any:
    """Remove members that the shape does not define, and members without a value."""
    if isinstance(shape, StructureShape):
        members: dict[str, Any] = cast(Any, shape.members)
        known = ((name, member) for name, member in members.items() if value.get(name) is not None)
        return {name: filter_members(member, value[name]) for name, member in known}
    if isinstance(shape, ListShape):
        return [filter_members(shape.member, item) for item in value]
    if isinstance(shape, MapShape):
        return {name: filter_members(shape.value, item) for name, item in value.items()}
    return value


def _broken(shape: Any, value: Any, path: str) -> Iterator[str]:
    if isinstance(shape, StructureShape) and isinstance(value, Mapping):
        yield from _broken_structure(shape, value, path)
    elif isinstance(shape, ListShape) and isinstance(value, list):
        yield from _broken_size(shape, len(value), value, path)
        for number, item in enumerate(value, 1):
            yield from _broken(shape.member, item, f"{path}.{number}.member")
    elif isinstance(shape, MapShape) and isinstance(value, Mapping):
        yield from _broken_size(shape, len(value), value, path)
        for name, item in value.items():
            yield from _broken(shape.key, name, path)
            yield from _broken(shape.value, item, f"{path}.{name}.member")
    elif isinstance(value, str):
        yield from _broken_text(shape, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _broken_number(shape, value, path)


def _broken_structure(shape: Any, value: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in shape.required_members:
        if value.get(name) is None:
            yield _constraint_error("null", _below(path, name), "Member must not be null")
    for name, item in value.items():
        if name in shape.members and item is not None:
            yield from _broken(shape.members[name], item, _below(path, name))


def _broken_text(shape: Any, text: str, path: str) -> Iterator[str]:
    allowed = getattr(shape, "enum", None)
    if allowed and text not in allowed:
        yield _constraint_error(text, path, f"Member must satisfy enum value set: [{', '.join(allowed)}]")
    yield from _broken_size(shape, len(text), text, path)
    pattern = shape.metadata.get("pattern")
    if pattern and not _compiled(pattern).fullmatch(text):
        yield _constraint_error(text, path, f"Member must satisfy regular expression pattern: {pattern}")


def _broken_size(shape: Any, size: int, value: Any, path: str) -> Iterator[str]:
    minimum, maximum = shape.metadata.get("min"), shape.metadata.get("max")
    if minimum is not None and size < minimum:
        yield _constraint_error(value, path, f"Member must have length greater than or equal to {minimum}")
    if maximum is not None and size > maximum:
        yield _constraint_error(value, path, f"Member must have length less than or equal to {maximum}")


def _broken_number(shape: Any, value: float, path: str) -> Iterator[str]:
    minimum, maximum = shape.metadata.get("min"), shape.metadata.get("max")
    if minimum is not None and value < minimum:
        yield _constraint_error(value, path, f"Member must have value greater than or equal to {minimum}")
    if maximum is not None and value > maximum:
        yield _constraint_error(value, path, f"Member must have value less than or equal to {maximum}")


def _constraint_error(value: Any, path: str, constraint: str) -> str:
    shown = value if isinstance(value, str) else json.dumps(value)
    return f"Value '{shown}' at '{path}' failed to satisfy constraint: {constraint}"


def _below(path: str, name: str) -> str:
    small = name[:1].lower() + name[1:]
    return f"{path}.{small}" if path else small


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # The model's patterns are Java's. Python does not support \p{L} and the like; \w also matches the underscore.
    plain = re.sub(r"\\p\{([A-Z])\w*\}", lambda found: _CLASSES.get(found[1], ""), pattern)
    try:
        return re.compile(plain, re.DOTALL)
    except re.error:
        return re.compile(".*", re.DOTALL)
