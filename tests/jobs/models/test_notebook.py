"""Notebook instances in a gpuproof.yaml."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from gpuproof.errors import InvalidJob, UsageError
from gpuproof.jobs.load import load, load_as
from gpuproof.jobs.models.notebook import NotebookJob
from gpuproof.jobs.schema import json_schema
from gpuproof.jobs.yaml_file import reader
from gpuproof.units import Duration


def test_a_file_describes_a_notebook_instance(tmp_path: Path) -> None:
    path = tmp_path / "gpuproof.yaml"
    path.write_text(
        "kind: notebook\nname: nb\ninstance_type: ml.g5.xlarge\nfallbacks: [ml.g6.xlarge, ml.g5.xlarge]\n"
    )
    job = load_as(path, None, NotebookJob)
    assert job.instance_types == ("ml.g5.xlarge", "ml.g6.xlarge")
    assert (job.idle_timeout, job.root_access, job.volume_size) == (Duration(3600), False, 50)
    with pytest.raises(UsageError, match="a notebook instance") as error:
        load(path)
    assert "gpuproof notebook create" in (error.value.remedy or "")


def test_under_jobs_the_key_is_the_name(tmp_path: Path) -> None:
    text = "jobs: {nb: {kind: notebook, instance_type: ml.g5.xlarge}}\n"
    path = tmp_path / "gpuproof.yaml"
    path.write_text(text)
    assert load_as(path, None, NotebookJob).name == "nb"
    assert jsonschema.Draft202012Validator(json_schema()).is_valid(reader.read(text.encode()).data)


@pytest.mark.parametrize(
    ("keys", "part"),
    [
        ({"idle_timeout": "1m"}, "less than 5"),
        ({"internet_access": False}, "subnet"),
        ({"security_groups": ["sg-1"]}, "subnet"),
        ({"volume_size": 4}, "volume_size"),
        ({"platform": "windows"}, "notebook-al2023-v1"),
        ({"subnets": ["subnet-1"]}, "write subnet"),
        ({"max_duration": "8h"}, "idle_timeout"),
    ],
)
def test_what_is_invalid_is_named(keys: dict[str, object], part: str) -> None:
    with pytest.raises(InvalidJob, match=part):
        NotebookJob(name="nb", instance_type="ml.g5.xlarge", **keys)


def test_never_to_stop_has_to_be_written() -> None:
    assert NotebookJob(name="nb", instance_type="ml.g5.xlarge", idle_timeout=None).idle_timeout is None
