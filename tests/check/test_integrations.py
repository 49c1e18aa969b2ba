"""The pre-commit hook and the GitHub Action do what `gpuproof check` does."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
BAD = "x = (\n"


def test_the_hook_is_one_that_pre_commit_takes() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {"id", "name", "entry", "language"} <= set(hook)
    assert hook["pass_filenames"] is False


def test_the_hooks_entry_fails_on_a_finding(tmp_path: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (tmp_path / "a.py").write_text(BAD)
    words = hook["entry"].split()
    done = subprocess.run(
        [Path(sys.executable).parent / words[0], *words[1:]], cwd=tmp_path, capture_output=True
    )
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("inputs", "code", "expected"),
    [
        ({}, 1, "::error file=a.py"),
        ({"paths": "b.py"}, 0, ""),
        ({"paths": "a.py b.py", "format": "text"}, 1, "2 files checked"),
        ({"arguments": "--ignore E901"}, 0, ""),
        ({"paths": "$(touch owned)"}, 2, ""),
    ],
)
def test_the_action_runs_check(tmp_path: Path, inputs: dict[str, str], code: int, expected: str) -> None:
    (tmp_path / "a.py").write_text(BAD)
    (tmp_path / "b.py").write_text("x = 1\n")
    done = run_action(tmp_path, inputs)
    assert (done.returncode, expected in done.stdout) == (code, True), done.stderr
    assert not (tmp_path / "owned").exists()


def test_the_action_writes_to_a_file_and_still_fails(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BAD)
    done = run_action(tmp_path, {"format": "sarif", "output": "out.sarif"})
    assert done.returncode == 1
    assert '"version": "2.1.0"' in (tmp_path / "out.sarif").read_text()


def run_action(folder: Path, inputs: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The action's last step, as a runner would start it, with this GPUproof in place of an installed one."""
    step = ACTION["runs"]["steps"][-1]
    temporary = folder / "runner"
    (temporary / "gpuproof").mkdir(parents=True)
    (temporary / "gpuproof" / "bin").symlink_to(Path(sys.executable).parent)
    values = {name: inputs.get(name, str(one["default"])) for name, one in ACTION["inputs"].items()}
    environment = {
        name: values[text.removeprefix("${{ inputs.").removesuffix(" }}")]
        for name, text in step["env"].items()
    }
    assert "${{" not in step["run"]
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env={**os.environ, **environment, "RUNNER_TEMP": str(temporary)},
        capture_output=True,
        text=True,
    )
