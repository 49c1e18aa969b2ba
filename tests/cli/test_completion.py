"""Completion scripts and the man page, which come from the parsers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.cli.completion import SHELLS, script
from gpuproof.cli.main import COMMANDS, main
from gpuproof.errors import ExitCode

ROOT = Path(__file__).parents[2]
COMPLETE = """
gpuproof() { "$PYTHON" -m gpuproof "$@"; }
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_shtab_gpuproof gpuproof "${@: -1}" "${@: -2:1}" 2> /dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "gpuproof.bash"
    path.write_text(script("bash"))
    return path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["cata"], {"catalogue"}),
        (["gpus", "--fo"], {"--for", "--format"}),
        (["gpus", "--for", "tr"], {"training", "transform"}),
        (["check", "--format", "sa"], {"sarif"}),
        (["catalogue", "re"], {"refresh"}),
        (["logs", "train-"], {"train-1", "train-2"}),
    ],
)
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_choices_and_runs(
    tmp_path: Path, bash_script: Path, words: list[str], expected: set[str]
) -> None:
    for name in ("train-1", "train-2"):
        run = tmp_path / "runs" / name
        run.mkdir(parents=True)
        (run / "run.json").write_text(
            f'{{"id": "{name}", "job_name": "train", "kind": "training", "backend": "local", "status": "Completed", "created": 1}}'
        )
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "-", str(bash_script), "gpuproof", *words],
        env={**os.environ, "PYTHON": sys.executable, "GPUPROOF_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert set(done.stdout.split()) == expected, done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_printed_for_each_shell(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in COMMANDS)


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_can_read_its_script(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(script(shell))
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_another_shell_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == ExitCode.USAGE
    assert "'tcsh' is not a value of {bash,zsh,fish}" in capsys.readouterr().err


def test_the_man_page_is_current() -> None:
    command = [sys.executable, str(ROOT / "tools" / "build_man_page.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run tools/build_man_page.py"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_man_page_has_no_errors() -> None:
    command = ["groff", "-man", "-Tascii", "-ww", str(ROOT / "docs" / "gpuproof.1")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--instance-type" in re.sub(".\x08", "", done.stdout)
