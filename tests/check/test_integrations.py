"""The pre-commit hook, the GitHub Action and the YAML of docs/ci.md do what `gpuproof check` does."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from gpuproof.version import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
PAGE = (ROOT / "docs" / "ci.md").read_text().partition("## Estimate in pull requests")[0]
SHOWN: list[dict[str, Any]] = [
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
]
BAD = "x = (\n"


def test_the_hook_is_one_that_pre_commit_takes() -> None:
    (hook,) = HOOKS
    assert {"id", "name", "entry", "language"} <= set(hook)
    assert hook["pass_filenames"] is False


def test_the_hooks_entry_fails_on_a_finding(tmp_path: Path) -> None:
    (hook,) = HOOKS
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


def test_the_page_shows_yaml_for_pre_commit_github_and_gitlab() -> None:
    assert [next(key for key in document if key != "name") for document in SHOWN] == [
        "repos",
        True,
        "gpuproof",
    ]


def test_the_pre_commit_yaml_of_the_page_names_the_hook_of_this_release() -> None:
    (repository,) = SHOWN[0]["repos"]
    assert repository["rev"] == f"v{__version__}"
    assert [hook["id"] for hook in repository["hooks"]] == [hook["id"] for hook in HOOKS]


def test_the_github_yaml_of_the_page_runs_the_action(tmp_path: Path) -> None:
    # YAML 1.1 reads the key `on` as true.
    assert set(SHOWN[1][True]) == {"push", "pull_request"}
    step = SHOWN[1]["jobs"]["check"]["steps"][-1]
    assert step["uses"] == f"gpuproof/gpuproof@v{__version__}"
    assert set(step["with"]) <= set(ACTION["inputs"])
    (tmp_path / "a.py").write_text(BAD)
    done = run_action(tmp_path, step["with"])
    assert (done.returncode, "::error file=a.py" in done.stdout) == (1, True), done.stderr


@pytest.mark.parametrize(("source", "code", "failures"), [(BAD, 1, "1"), ("x = 1\n", 0, "0")])
def test_the_gitlab_yaml_of_the_page_fails_with_the_check_and_leaves_a_report(
    tmp_path: Path, source: str, code: int, failures: str
) -> None:
    job = SHOWN[2]["gpuproof"]
    install, check = job["script"]
    assert install == f'pip install "git+https://github.com/gpuproof/gpuproof@v{__version__}"'
    (tmp_path / "a.py").write_text(source)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-e", "-c", check], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == code
    report = ET.parse(tmp_path / job["artifacts"]["reports"]["junit"]).getroot()
    assert (report.get("failures"), job["artifacts"]["when"]) == (failures, "always")


def run_action(folder: Path, inputs: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The step of the action that checks, as a runner would start it, with this GPUproof in place of an installed one."""
    step = next(step for step in ACTION["runs"]["steps"] if step.get("name") == "Check")
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
