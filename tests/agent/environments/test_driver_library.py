"""The driver library that a script in a container loads, with the agent's real file as entry point."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.driver_tree import driver_tree

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from conftest import Container

SCRIPT = "import os\nprint('PATH', os.environ.get('LD_LIBRARY_PATH'))\n"
# Runs the agent's file as `--container FOLDER` does, with the files of another machine.
ENTRY = """
import sys
folder, root = {folder!r}, {root!r}
sys.path.insert(0, folder + "/gpuproof-agent.pyz")
from pathlib import Path
from gpuproof.agent.environments.sagemaker_container import run_container_job
from gpuproof.agent.main import _run
from gpuproof.agent.paths import ContainerPaths
sys.exit(run_container_job(ContainerPaths(Path(folder), root=Path(root)), _run))
"""
COMPAT = "/usr/local/cuda/compat"


def run(container: Container, root: Path, **job: object):
    container.sagemaker()
    container.send({"train.py": SCRIPT}, **job)
    inside = "/opt/ml/" + str(container.folder.relative_to(container.ml))
    done = container.carry_out(ENTRY.format(folder=inside, root=str(root)), agent="-c")
    assert done.code == 0, done.stderr
    return done


@pytest.mark.parametrize("kind", ["training", "processing"])
def test_the_script_finds_the_images_newer_library_first(
    container: Container, tmp_path: Path, kind: str
) -> None:
    container.kind = kind
    container.environment = {"LD_LIBRARY_PATH": "/opt/amazon/efa/lib"}
    done = run(container, driver_tree(tmp_path / "root", "535.183.01", "580.95.05"))
    assert f"PATH {COMPAT}:/opt/amazon/efa/lib" in done.lines
    assert any("580.95.05" in line and "535.183.01" in line for line in done.lines)
    assert done.verdict["cuda_compat"] == "580.95.05"
    assert done.verdict["driver_version"] == "535.183.01"
    assert any("580.95.05" in note for note in container.run["notes"])


def test_a_path_that_the_job_sets_comes_after_it(container: Container, tmp_path: Path) -> None:
    root = driver_tree(tmp_path / "root", "535.183.01", "580.95.05")
    done = run(container, root, environment={"LD_LIBRARY_PATH": "/opt/own/lib"})
    assert f"PATH {COMPAT}:/opt/own/lib" in done.lines


def test_an_unsupported_pair_changes_nothing_and_is_reported(container: Container, tmp_path: Path) -> None:
    done = run(container, driver_tree(tmp_path / "root", "470.256.02", "580.95.05"))
    assert "PATH None" in done.lines
    assert any("branch 470" in line for line in done.lines)
    assert "cuda_compat" not in done.verdict


@pytest.mark.parametrize("driver", ["580.95.05", None])
def test_a_new_driver_or_none_changes_nothing_and_says_nothing(
    container: Container, tmp_path: Path, driver: str | None
) -> None:
    done = run(container, driver_tree(tmp_path / "root", driver, "580.95.05"))
    assert done.lines == ["PATH None"]
    assert "cuda_compat" not in json.dumps(done.verdict)
