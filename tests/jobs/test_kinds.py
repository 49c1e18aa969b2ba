"""Kinds of job that other commands than `gpuproof run` take."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import jsonschema
import pytest
from pydantic import Field

from gpuproof.errors import UsageError
from gpuproof.jobs import TrainingJob, kinds
from gpuproof.jobs.load import load, load_as, load_jobs
from gpuproof.jobs.models.job_model import JobModel
from gpuproof.jobs.schema import json_schema
from gpuproof.jobs.yaml_file import reader


class Cluster(JobModel):
    """A kind that exists in this test only, and shares no key with the others but kind and name."""

    kind: Literal["cluster"] = Field(default="cluster", description="The kind of job.")
    name: str = Field(default="cluster", description="Name of the cluster.")
    nodes: int = Field(default=1, description="Number of nodes.")


BOTH = """
defaults: {instance_type: g5.xlarge, nodes: 3}
jobs:
  train: {entry_point: train.py}
  big: {kind: cluster, nodes: 2}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script, while the kind `cluster` exists."""
    row = kinds.Kind(f"{__name__}:Cluster", "a cluster", "gpuproof cluster")
    monkeypatch.setitem(kinds.KINDS, "cluster", row)
    (tmp_path / "train.py").touch()
    return tmp_path


def written(folder: Path, text: str) -> Path:
    file = folder / "gpuproof.yaml"
    file.write_text(text)
    return file


def test_run_takes_the_only_job_that_it_can_run(folder: Path) -> None:
    job = load(written(folder, BOTH))
    assert isinstance(job, TrainingJob)
    assert job.name == "train"


def test_another_command_takes_the_only_job_of_its_kind(folder: Path) -> None:
    job = load_as(written(folder, BOTH), None, Cluster)
    assert (job.name, job.nodes) == ("big", 2)


def test_defaults_of_another_kind_are_left_out(folder: Path) -> None:
    jobs = load_jobs(written(folder, BOTH.replace(", nodes: 2", "")))
    assert jobs["big"] == Cluster(name="big", nodes=3)


def test_run_names_the_command_for_a_job_that_it_does_not_run(folder: Path) -> None:
    file = written(folder, BOTH)
    with pytest.raises(UsageError, match="'big' is a cluster, which gpuproof run does not take") as error:
        load(file, "big")
    assert error.value.remedy == f"gpuproof cluster {file} big"


def test_run_names_the_command_for_a_file_without_a_job_for_it(folder: Path) -> None:
    file = written(folder, "kind: cluster\nname: big\n")
    with pytest.raises(UsageError) as error:
        load(file)
    assert error.value.remedy == f"gpuproof cluster {file}"


def test_another_command_names_run_for_a_script_job(folder: Path) -> None:
    file = written(folder, "entry_point: train.py\nname: mine\n")
    with pytest.raises(UsageError, match="'mine' is a training job") as error:
        load_as(file, None, Cluster)
    assert error.value.remedy == f"gpuproof run {file}"


def test_the_schema_knows_every_kind(folder: Path) -> None:
    check = jsonschema.Draft202012Validator(json_schema())
    assert check.is_valid(reader.read(BOTH.encode()).data)
    assert check.is_valid({"kind": "cluster", "name": "a"})
    assert check.is_valid({"defaults": {"kind": "cluster"}, "jobs": {"a": {"name": "a", "nodes": 2}}})
    assert not check.is_valid({"kind": "cluster", "name": "a", "entry_point": "train.py"})
    assert not check.is_valid({"kind": "nothing", "name": "a"})
