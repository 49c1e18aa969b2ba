"""Tests of the job that is only a script."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuproof.jobs import Overrides
from gpuproof.jobs.script_job import ScriptJob, expanded, script_job
from gpuproof.jobs.spec import TrainingJob


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train_cifar.py"
    path.write_text("")
    return path


def test_it_has_the_values_of_a_training_job(script: Path) -> None:
    job = script_job(script, ("--epochs", "5"))
    assert job is not None
    known = TrainingJob(
        entry_point="train_cifar.py", source_dir=str(script.parent), arguments=("--epochs", "5")
    )
    assert job.model_dump() == known.model_dump()
    assert job.warnings == known.warnings
    assert expanded(job) == known


@pytest.mark.parametrize("name", ["train.sh", "gpuproof.yaml", "train.ipynb", "missing.py", "folder.py"])
def test_anything_but_an_existing_python_script_takes_the_longer_way(tmp_path: Path, name: str) -> None:
    if name == "folder.py":
        (tmp_path / name).mkdir()
    elif name != "missing.py":
        (tmp_path / name).write_text("")
    assert script_job(tmp_path / name, ()) is None


@pytest.mark.parametrize(
    ("flags", "only"),
    [
        ({}, True),
        ({"arguments": ["--epochs", "5"]}, True),
        ({"inputs": [], "tags": []}, True),
        ({"require_gpu": False}, False),
        ({"instance_count": 0}, False),
        ({"name": ""}, False),
        ({"inputs": ["training=./data"]}, False),
    ],
)
def test_flags_are_noticed(flags: dict[str, Any], *, only: bool) -> None:
    assert Overrides(**flags).only_arguments is only


def test_a_dry_run_of_a_script_imports_no_pydantic(script: Path) -> None:
    code = (
        "import sys; from gpuproof.cli.main import main;"
        f"sys.argv = ['gpuproof', 'run', {str(script)!r}, '--dry-run', '--', '--epochs', '5'];"
        "code = main(); assert not code, code; sys.exit('pydantic' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL).returncode == 0
    )


def test_it_is_immutable() -> None:
    with pytest.raises(AttributeError):
        ScriptJob("a.py", "/").name = "b"  # pyright: ignore[reportAttributeAccessIssue]
