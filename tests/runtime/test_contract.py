"""The job's folders, hosts and hyperparameters."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import gpuproof.runtime as rt
from gpuproof.agent.contract import hyperparameter_texts
from gpuproof.runtime import contract

HYPERPARAMETERS = {
    "epochs": 5,
    "learning-rate": 0.1,
    "name": "resnet",
    "digits": "5",
    "layers": [64, 32],
    "debug": True,
    "nothing": None,
}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    base = tmp_path / "ml"
    (base / "input" / "config").mkdir(parents=True)
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(base))
    return base


def test_the_folders_are_the_contracts_own(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SM_MODEL_DIR", str(job / "elsewhere"))
    assert rt.paths.model == job / "elsewhere"
    assert rt.paths.output == job / "output" / "data"
    assert rt.paths.checkpoints == job / "checkpoints"
    assert all(path.is_dir() for path in (rt.paths.model, rt.paths.output, rt.paths.checkpoints))


def test_without_a_job_they_lie_in_the_current_folder() -> None:
    here = Path.cwd()
    assert (rt.paths.model, rt.paths.output) == (here / "model", here / "output")


def test_a_channel_is_where_its_variable_points(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SM_CHANNELS", '["train","eval-set"]')
    monkeypatch.setenv("SM_CHANNEL_TRAIN", "/somewhere/train")
    assert rt.paths.channel("train") == Path("/somewhere/train")
    assert rt.paths.channels == {
        "train": Path("/somewhere/train"),
        "eval-set": job / "input" / "data" / "eval-set",
    }


def test_a_missing_channel_names_those_that_are_there(job: Path) -> None:
    (job / "input" / "data" / "train").mkdir(parents=True)
    with pytest.raises(rt.NoSuchChannel, match=r"no input channel 'test': it has train\. Add 'inputs:"):
        rt.paths.channel("test")


def test_the_code_folder_is_the_scripts_when_the_toolkit_names_s3(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "train.py"), raising=False)
    monkeypatch.setenv("SM_MODULE_DIR", "s3://bucket/sourcedir.tar.gz")
    assert rt.paths.code == tmp_path.resolve()


def test_hyperparameters_come_back_as_they_were_written(job: Path) -> None:
    texts = hyperparameter_texts({**HYPERPARAMETERS, "sagemaker_program": "train.py"})
    (job / "input" / "config" / "hyperparameters.json").write_text(json.dumps(texts))
    assert rt.hyperparameters() == HYPERPARAMETERS


def test_without_the_file_they_come_from_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SM_HPS", '{"epochs": 3}')
    assert rt.hyperparameters() == {"epochs": 3}


def test_without_a_job_there_are_none() -> None:
    assert rt.hyperparameters() == {}


@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({}, True),
        ({"RANK": "0"}, True),
        ({"RANK": "3"}, False),
        ({"OMPI_COMM_WORLD_RANK": "1"}, False),
        ({"SM_HOSTS": '["algo-1","algo-2"]', "SM_CURRENT_HOST": "algo-1"}, True),
        ({"SM_HOSTS": '["algo-1","algo-2"]', "SM_CURRENT_HOST": "algo-2"}, False),
        ({"SM_HOSTS": '["algo-1","algo-2"]', "SM_CURRENT_HOST": "algo-1", "RANK": "1"}, False),
        ({"TF_CONFIG": '{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":0}}'}, True),
        ({"TF_CONFIG": '{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":1}}'}, False),
        ({"TF_CONFIG": '{"cluster":{"chief":["a:1"]},"task":{"type":"worker","index":0}}'}, False),
        ({"TF_CONFIG": "not JSON"}, True),
    ],
)
def test_one_process_is_the_first_rank(
    variables: dict[str, str], first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert rt.is_first_rank() is first


def test_a_job_without_the_setting_does_not_make_the_gpu_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not contract.gpu_is_optional()
    monkeypatch.setenv("GPUPROOF_REQUIRE_GPU", "0")
    assert contract.gpu_is_optional()
