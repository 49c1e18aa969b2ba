"""Entry points like those of AWS's images, started as real processes with the variables of the CreateModel request."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gpuproof.backends.sagemaker.endpoints.server_files import AGENT, BASH_HOOK, PYTHON_HOOK

HOOK = Path(__file__).parents[4] / "src/gpuproof/backends/sagemaker/endpoints/hook"

PYTHON_ENTRY = """\
import subprocess, sys
if sys.argv[1] == "serve":
    print("the image's server", flush=True)
else:
    subprocess.check_call(sys.argv[1:])
"""
BASH_ENTRY = """\
#!/usr/bin/env bash
bash -c 'true' >/dev/null 2>&1 || true
if [[ "$1" = "train" ]]; then
    echo training
else
    eval "$@"
fi
"""
SERVER = """\
import json, os, sys
told = {name: os.environ.get(name) for name in ("PYTHONPATH", "BASH_ENV", "GPUPROOF_SERVER", "MINE")}
print(json.dumps({"argv": sys.argv[1:], **told}))
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A folder with the hook, a server that prints how it was started, and two entry points."""
    for name in (PYTHON_HOOK, BASH_HOOK):
        shutil.copy(HOOK / name, tmp_path / name)
    with zipfile.ZipFile(tmp_path / AGENT, "w") as archive:
        archive.writestr("__main__.py", SERVER)
    (tmp_path / "entry.py").write_text(PYTHON_ENTRY)
    (tmp_path / "entry.sh").write_text(BASH_ENTRY)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    return tmp_path


def start(image: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": f"{image / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(image),
        "BASH_ENV": str(image / BASH_HOOK),
        "GPUPROOF_SERVER": str(image / AGENT),
        "MINE": "kept",
        **more,
    }
    return subprocess.run(
        command, env=environment, cwd=image, capture_output=True, text=True, timeout=300, check=False
    )


ENTRY_POINTS = [
    pytest.param((sys.executable, "entry.py", "serve"), id="python"),
    pytest.param(("bash", "-m", "entry.sh", "serve"), id="bash"),
]


@pytest.mark.parametrize("command", ENTRY_POINTS)
def test_the_server_replaces_an_entry_point_that_is_started_with_serve(
    image: Path, command: tuple[str, ...]
) -> None:
    ended = start(image, *command)
    assert '{"argv": ["serve", "--leave-on-failure"], "PYTHONPATH": null' in ended.stdout, ended
    assert "the image's server" not in ended.stdout
    assert ended.returncode == 0


@pytest.mark.parametrize("command", ENTRY_POINTS)
def test_the_server_has_the_users_variables_and_none_of_the_hooks(
    image: Path, command: tuple[str, ...]
) -> None:
    ended = start(image, *command, PYTHONPATH=f"{image}:/users/own")
    assert (
        '"PYTHONPATH": "/users/own", "BASH_ENV": null, "GPUPROOF_SERVER": null, "MINE": "kept"'
        in ended.stdout
    )


@pytest.mark.parametrize("command", ENTRY_POINTS)
def test_without_the_agents_file_the_images_own_entry_point_runs(
    image: Path, command: tuple[str, ...]
) -> None:
    (image / AGENT).unlink()
    ended = start(image, *command)
    own = "the image's server" if command[0] == sys.executable else "serve: command not found"
    assert own in ended.stdout + ended.stderr


def test_another_argument_runs_the_images_entry_point(image: Path) -> None:
    assert start(image, "bash", "-m", "entry.sh", "train").stdout == "training\n"
    ran = start(image, sys.executable, "entry.py", "echo", "serve")
    assert ran.stdout == "serve\n"


def test_the_sitecustomize_of_the_user_still_runs(image: Path) -> None:
    (image / "own").mkdir()
    (image / "own" / "sitecustomize.py").write_text("print('own sitecustomize')\n")
    ended = start(
        image, sys.executable, "-c", "print('program')", PYTHONPATH=f"{image}{os.pathsep}{image / 'own'}"
    )
    assert ended.stdout == "own sitecustomize\nprogram\n", ended.stderr


def test_programs_of_the_image_run_as_without_the_hook(image: Path) -> None:
    assert start(image, sys.executable, "-c", "print('program')").stdout == "program\n"
    assert start(image, "bash", "-c", "echo script").stdout == "script\n"
