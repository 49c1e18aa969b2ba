"""Validators for single values of a job, with SageMaker's limits.

The limits come from the service model of botocore 1.40 (`CreateTrainingJobRequest`, `CreateProcessingJobRequest`), which
is the same as https://docs.aws.amazon.com/sagemaker/latest/APIReference/. They apply to every backend, so that SageMaker
accepts every job that runs locally.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from gpuproof.units import Duration

JOB_NAME = r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$"
CHANNEL_NAME = r"^[A-Za-z0-9.\-_]{1,64}$"
VARIABLE_NAME = r"^[a-zA-Z_][a-zA-Z0-9_]{0,511}$"
INSTANCE_TYPE = r"^(ml\.)?[a-z][a-z0-9-]*\.[a-z0-9][a-z0-9-]*$"
REGION = r"^[a-z]{2,4}(-[a-z]+)+-\d+$"

MAX_CHANNELS = 20
MAX_PROCESSING_MOUNTS = 10
MAX_ENTRIES = 100
"""Hyperparameters of a job, and variables in its environment."""
MAX_HYPERPARAMETER_NAME = 256
MAX_HYPERPARAMETER_VALUE = 2500
MAX_VARIABLE_VALUE = 512
MAX_TAGS = 50
MAX_TAG_KEY = 128
MAX_TAG_VALUE = 256
MAX_TRAINING_DURATION = Duration(28 * 86400)
MAX_PROCESSING_DURATION = Duration(9 * 86400)
PROCESSING_ROOT = "/opt/ml/processing"
"""The only folder below which SageMaker mounts the inputs of a processing job."""


def is_s3(place: str) -> bool:
    """Whether a source or a destination is an S3 address and not a local path."""
    return place.startswith("s3://")


def check_name(name: str) -> str:
    if not re.fullmatch(JOB_NAME, name):
        raise ValueError(
            f"'{name}' is not a valid SageMaker job name: use up to 63 letters, digits and hyphens, "
            f"as in '{derive_job_name(name)}'"
        )
    return name


def derive_job_name(text: str) -> str:
    """Derives a valid SageMaker job name from a file name or a key: `train-cifar` from `train_cifar.py`."""
    stem = PurePosixPath(text).stem if text else ""
    return re.sub(r"[^a-zA-Z0-9]+", "-", stem).strip("-")[:63].strip("-") or "job"


def check_entry_point(path: str) -> str:
    pure = PurePosixPath(path)
    if not path.strip() or path.endswith("/"):
        raise ValueError("it must name a file below source_dir, as in train.py")
    if pure.is_absolute() or path.startswith("~/"):
        raise ValueError(
            f"'{path}' is absolute, but an entry point is relative to source_dir: "
            f"write source_dir: {pure.parent} and entry_point: {pure.name}"
        )
    if ".." in pure.parts:
        raise ValueError(f"'{path}' is outside source_dir: choose a source_dir that contains the entry point")
    return str(pure)


def check_include(pattern: str) -> str:
    if not pattern.strip():
        raise ValueError("it is empty: write a path relative to source_dir, as in .env or data/*.csv")
    if ".." in PurePosixPath(pattern).parts:
        raise ValueError(f"'{pattern}' leads out of source_dir, whose files are the only ones that are sent")
    return pattern


def check_path_or_s3(place: str) -> str:
    """Accepts a local folder or file, or an S3 address; turns `file://` into a path."""
    if not place.strip():
        raise ValueError("it is empty: write a folder, a file or an s3:// address")
    if place.startswith("file:///"):
        return place.removeprefix("file://")
    if place.startswith("s3:"):
        if not re.match(r"s3://[^/]+", place):
            raise ValueError(f"'{place}' has no bucket name: write s3://BUCKET/PREFIX")
        return place
    if re.match(r"^[A-Za-z][A-Za-z0-9+.-]*://", place):
        raise ValueError(
            f"'{place}' is neither a local path nor an s3:// address: copy the data to one of them"
        )
    return place


def check_instance_type(name: str) -> str:
    if re.fullmatch(INSTANCE_TYPE, name):
        return name
    lower = name.strip().lower()
    example = lower if re.fullmatch(INSTANCE_TYPE, lower) else "ml.g5.xlarge or g5.xlarge"
    raise ValueError(f"'{name}' is not an instance type: write, for example, {example}")


def check_region(name: str) -> str:
    if not re.fullmatch(REGION, name):
        raise ValueError(f"'{name}' is not an AWS region: write, for example, us-east-1")
    return name


def check_content_type(text: str) -> str:
    if set("\r\n") & set(text):
        raise ValueError("it must be one line, such as application/json: no HTTP header holds line breaks")
    return text


def check_channel(name: str) -> str:
    if not re.fullmatch(CHANNEL_NAME, name):
        raise ValueError(
            f"'{name}' is not a valid channel name: use up to 64 letters, digits, dots, hyphens and underscores"
        )
    return name


def check_variable(name: str) -> str:
    if not re.fullmatch(VARIABLE_NAME, name):
        raise ValueError(
            f"'{name}' is not a valid name of an environment variable: use letters, digits and underscores, and begin with no digit"
        )
    return name


def path_to_text(value: Any) -> Any:
    """Returns a `pathlib.Path` as text; any other value unchanged."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def number_to_text(value: Any) -> Any:
    """Returns a number as text, because variables and tags hold only text; any other value unchanged."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def as_texts(value: Any) -> Any:
    """Returns a list with its numbers as text, and None as an empty list; any other value unchanged."""
    if value is None:
        return ()
    return tuple(number_to_text(item) for item in value) if isinstance(value, list | tuple) else value


def check_variable_value(value: str) -> str:
    return _check_length(value, MAX_VARIABLE_VALUE, "the value of a variable")


def check_tag_key(key: str) -> str:
    if not key:
        raise ValueError("a tag needs a key")
    if key.lower().startswith("aws:"):
        raise ValueError(f"'{key}' begins with aws:, which AWS reserves")
    if key.startswith("gpuproof:"):
        raise ValueError(f"'{key}' begins with gpuproof:, which GPUproof uses to find its runs")
    return _check_length(key, MAX_TAG_KEY, "the key of a tag")


def check_tag_value(value: str) -> str:
    return _check_length(value, MAX_TAG_VALUE, "the value of a tag")


def check_hyperparameter_name(name: str) -> str:
    if not name.strip():
        raise ValueError("a hyperparameter needs a name")
    return _check_length(name, MAX_HYPERPARAMETER_NAME, "the name of a hyperparameter")


def check_hyperparameter(value: Any) -> Any:
    """Accepts a value that JSON can represent; tuples become lists."""
    plain = _json_value(value)
    _check_length(json.dumps(plain), MAX_HYPERPARAMETER_VALUE, "the value of a hyperparameter, as JSON,")
    return plain


def max_entries(most: int, what: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Returns a validator for the maximum number of entries of a mapping."""

    def check(things: Mapping[str, Any]) -> Mapping[str, Any]:
        if len(things) > most:
            raise ValueError(f"it has {len(things)} {what}; SageMaker's limit is {most}")
        return things

    return check


def check_processing_path(path: str) -> str:
    pure = PurePosixPath(path)
    below = pure.parts[: len(PurePosixPath(PROCESSING_ROOT).parts)] == PurePosixPath(PROCESSING_ROOT).parts
    if not below or ".." in pure.parts or len(path) > 256:
        raise ValueError(
            f"'{path}' is not below {PROCESSING_ROOT}, where SageMaker mounts the folders of processing jobs"
        )
    return str(pure)


def _json_value(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a number in JSON: put it in quotes to pass it as text")
        return value
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    raise ValueError(
        f"a {type(value).__name__} cannot be a hyperparameter: "
        "use text, a number, true or false, null, a list or a mapping of these"
    )


def _check_length(text: str, most: int, what: str) -> str:
    if len(text) > most:
        raise ValueError(f"{what} has {len(text)} characters; SageMaker's limit is {most}")
    return text
