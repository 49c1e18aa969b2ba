"""Tests of the job that is only a script."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuproof.jobs import Overrides, load_job, override_job
from gpuproof.jobs.models.script_jobs import TrainingJob
from gpuproof.jobs.script_job import ScriptJob, expanded, script_job


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train_cifar.py"
    path.write_text("")
    return path


def test_it_has_the_values_of_a_training_job(script: Path) -> None:
    job = script_job(script, Overrides(arguments=["--epochs", "5"]))
    assert job is not None
    known = TrainingJob(
        entry_point="train_cifar.py", source_dir=str(script.parent), arguments=("--epochs", "5")
    )
    assert job.model_dump() == known.model_dump()
    assert job.warnings == known.warnings
    assert expanded(job) == known


@pytest.mark.parametrize(
    "flags",
    [
        {"distribution": "torchrun", "processes_per_host": 2, "instance_count": 2},
        {"distribution": "multi_worker_mirrored", "instance_count": 2},
        {"distribution": "mirrored"},
        {"distribution": "auto"},
        {"instance_count": 3},
    ],
)
def test_a_launcher_and_several_hosts_are_as_in_any_other_job(script: Path, flags: dict[str, Any]) -> None:
    job = script_job(script, Overrides(**flags))
    assert job is not None
    known = override_job(load_job(script), Overrides(**flags), script.parent)
    assert job.model_dump() == known.model_dump()
    assert expanded(job) == known


@pytest.mark.parametrize(
    "flags",
    [
        {"distribution": "torchrn"},
        {"distribution": "torchrun", "processes_per_host": 0},
        {"distribution": "mirrored", "instance_count": 2},
        {"distribution": "mirrored", "processes_per_host": 2},
        {"processes_per_host": 2},
        {"instance_count": 0},
        {"require_gpu": False},
        {"name": ""},
        {"inputs": ["training=./data"]},
    ],
)
def test_other_flags_and_wrong_ones_take_the_longer_way(script: Path, flags: dict[str, Any]) -> None:
    assert script_job(script, Overrides(**flags)) is None


@pytest.mark.parametrize("name", ["train.sh", "gpuproof.yaml", "train.ipynb", "missing.py", "folder.py"])
def test_anything_but_an_existing_python_script_takes_the_longer_way(tmp_path: Path, name: str) -> None:
    if name == "folder.py":
        (tmp_path / name).mkdir()
    elif name != "missing.py":
        (tmp_path / name).write_text("")
    assert script_job(tmp_path / name, Overrides()) is None


def test_empty_flags_are_none(script: Path) -> None:
    assert script_job(script, Overrides(inputs=[], tags=[])) == script_job(script, Overrides())


@pytest.mark.parametrize("flags", [[], ["--distribution", "torchrun", "--processes-per-host", "2"]])
def test_a_dry_run_of_a_script_imports_no_pydantic(script: Path, flags: list[str]) -> None:
    code = (
        "import sys; from gpuproof.cli.main import main;"
        f"sys.argv = ['gpuproof', 'run', {str(script)!r}, *{flags}, '--dry-run', '--', '--epochs', '5'];"
        "code = main(); assert not code, code; sys.exit('pydantic' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL).returncode == 0
    )


def test_it_is_immutable() -> None:
    with pytest.raises(AttributeError):
        ScriptJob("a.py", "/").name = "b"  # pyright: ignore[reportAttributeAccessIssue]
