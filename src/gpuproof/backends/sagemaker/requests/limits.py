"""Checks a request against API limits that boto3 does not check, before anything is created.

botocore validates types, required members and minimums. Maximums and patterns are in its service model too, but only
AWS checks them, after the bucket, the code and the data have been uploaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from gpuproof.backends.aws.unknown_account import without_placeholders
from gpuproof.errors import InvalidJob

_JOB_KEYS = {
    "Environment": "environment",
    "HyperParameters": "hyperparameters",
    "InputDataConfig": "inputs",
    "ProcessingInputs": "inputs",
    "ProcessingOutputConfig": "outputs",
    "Tags": "tags",
    "VpcConfig": "sagemaker.subnets and sagemaker.security_groups",
}
"""The key of the job that a member of the request comes from."""

_SECRET = ("Environment",)
_UNITS = {"string": "characters", "list": "entries", "map": "entries"}
_CLASSES = (
    (r"\p{Alnum}", "a-zA-Z0-9"),
    (r"\p{L}", r"^\W\d_"),
    (r"\p{Z}", r"\s"),
    (r"\p{N}", r"\d"),
)


def check_limits(operation: str, request: Mapping[str, Any]) -> None:
    """Check a request against SageMaker's limits.

    Args:
        operation: such as `CreateTrainingJob`.

    Raises:
        InvalidJob: values are too long, too many or of the wrong form; the message lists all of them.
    """
    shape = _model().operation_model(operation).input_shape
    problems = list(_problems(shape, request, ()))
    if problems:
        raise InvalidJob(
            "\n".join(f"{problem} ({operation})." for problem in problems),
            remedy="Nothing was created. Change the job and run it again.",
        )


@cache
def _model() -> Any:
    from botocore.session import get_session  # slow to import: only for runs on AWS

    return get_session().get_service_model("sagemaker")


def _problems(shape: Any, value: Any, path: tuple[str, ...]) -> Iterator[str]:
    most = shape.metadata.get("max")
    kind = shape.type_name
    if kind in _UNITS and most is not None and len(value) > most:
        yield f"{_name(path)} has {len(value)} {_UNITS[kind]}, but SageMaker allows at most {most}"
    if kind in ("integer", "long") and most is not None and value > most:
        yield f"{_name(path)} is {value}, but SageMaker allows at most {most}"
    if kind == "structure":
        for name, item in value.items():
            yield from _problems(shape.members[name], item, (*path, name))
    elif kind == "map":
        for key, item in value.items():
            yield from _problems(shape.key, key, (*path, f"the name {key!r}"))
            yield from _problems(shape.value, item, (*path, str(key)))
    elif kind == "list":
        for number, item in enumerate(value):
            label = item.get("Key") or item.get("ChannelName") if isinstance(item, Mapping) else None
            yield from _problems(shape.member, item, (*path, str(label or number)))
    elif kind == "string" and not _fits(shape.metadata.get("pattern"), without_placeholders(value)):
        shown = "" if path[0] in _SECRET else f" {value!r}"
        yield f"{_name(path)}:{shown} has characters or a form that SageMaker does not allow"


def _fits(pattern: str | None, text: str) -> bool:
    if not pattern or pattern == ".*":
        return True
    compiled = _compiled(pattern)
    return compiled is None or compiled.fullmatch(text) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """The model's Java pattern as a Python pattern; None if Python cannot express it."""
    letters = r"\p{L}" in pattern
    for java, python in _CLASSES:
        pattern = pattern.replace(java, "" if java == r"\p{L}" else python)
    try:
        compiled = re.compile(pattern)
    except re.error:
        return None
    if not letters:
        return compiled
    # Python cannot combine "any letter" with single characters in one class: it becomes an alternative.
    return re.compile(re.sub(r"\[([^\]]*)\]", r"(?:[\1]|[^\\W\\d_])", pattern))


def _name(path: tuple[str, ...]) -> str:
    own = _JOB_KEYS.get(path[0])
    return ".".join(path) if own is None else " ".join((own, *path[1:]))
