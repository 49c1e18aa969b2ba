"""The published JSON schema takes what GPUproof takes, and refuses what it can see is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpuproof.jobs.schema import json_schema
from gpuproof.jobs.yaml_file import reader

HERE = Path(__file__).parent
VALID = sorted((HERE / "valid").glob("*.yaml"))
INVALID = sorted((HERE / "broken" / "values").glob("*.yaml"))
SCHEMA = json_schema()


def check(path: Path) -> jsonschema.ValidationError | None:
    data = reader.read(path.read_bytes()).data
    return next(jsonschema.Draft202012Validator(SCHEMA).iter_errors(data), None)


def every_property(schema: Any) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{owner}.{key}", described)
        for owner, definition in schema["$defs"].items()
        for key, described in definition["properties"].items()
    ]


def test_it_is_a_schema_of_draft_2020_12() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["$id"]


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_file_validates(path: Path) -> None:
    assert check(path) is None


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_an_invalid_file_does_not_validate(path: Path) -> None:
    assert check(path) is not None


def test_every_key_is_described() -> None:
    assert [name for name, described in every_property(SCHEMA) if not described.get("description")] == []


def test_no_job_and_no_part_takes_unknown_keys() -> None:
    assert [name for name, part in SCHEMA["$defs"].items() if part["additionalProperties"] is not False] == []


def test_examples_and_defaults_fit_their_own_schema() -> None:
    for name, described in every_property(SCHEMA):
        validator = jsonschema.Draft202012Validator({**described, "$defs": SCHEMA["$defs"]})
        shown = described.get("examples", []) + ([described["default"]] if "default" in described else [])
        assert [(name, value) for value in shown if not validator.is_valid(value)] == []


def test_editors_can_complete_the_words() -> None:
    job = SCHEMA["$defs"]["TrainingJob"]["properties"]
    assert "pytorch" in job["framework"]["anyOf"][0]["enum"]
    assert job["if_gpu_unused"]["anyOf"][0]["enum"] == ["stop", "fail", "warn"]
    assert job["distribution"]["anyOf"][0]["enum"][:2] == ["none", "torchrun"]
    assert set(SCHEMA["$defs"]["SageMakerDistribution"]["properties"]) == {
        "torch_distributed",
        "mpi",
        "parameter_server",
        "multi_worker_mirrored_strategy",
    }
