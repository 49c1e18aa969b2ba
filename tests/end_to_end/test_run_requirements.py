"""`requirements.txt` is installed for the run alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.cli_sandbox import CliSandbox, until

pytestmark = [pytest.mark.journey, pytest.mark.slow]


def make_wheel(folder: Path, name: str, version: str, requires: str = "") -> None:
    """A wheel with one module that knows its version."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", f"VERSION = '{version}'\n")
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter of the user's, with a torch of its own."""
    folder = tmp_path_factory.mktemp("env")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    make_wheel(folder / "wheels", "torch", "2.13.0")
    python = folder / "venv" / "bin" / "python"
    subprocess.run(
        [
            python,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-index",
            folder / "wheels" / "torch-2.13.0-py3-none-any.whl",
        ],
        check=True,
    )
    return python


def require(sandbox: CliSandbox, *lines: str) -> None:
    sandbox.write(
        "requirements.txt",
        "\n".join(["--no-index", f"--find-links {sandbox.project.parent / 'wheels'}", *lines]) + "\n",
    )


def test_a_requirement_is_installed_for_the_run_and_nowhere_else(sandbox: CliSandbox, python: Path) -> None:
    make_wheel(sandbox.project.parent / "wheels", "runwayhelper", "1.5")
    require(sandbox, "runwayhelper>=1")
    sandbox.write("train.py", "import runwayhelper, torch; print(runwayhelper.VERSION, torch.VERSION)")
    done = sandbox.gpuproof("run", "train.py", "--python", python)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("1.5 2.13.0\n")
    after = subprocess.run([python, "-c", "import runwayhelper"], capture_output=True, text=True)
    assert "ModuleNotFoundError" in after.stderr


def test_a_file_that_would_replace_torch_stops_the_run(sandbox: CliSandbox, python: Path) -> None:
    make_wheel(sandbox.project.parent / "wheels", "torch", "2.99.0")
    require(sandbox, "torch==2.99.0")
    sandbox.write("train.py", "print('started')")
    done = sandbox.gpuproof("run", "train.py", "--python", python)
    assert done.returncode == 1
    assert "started" not in done.stdout.splitlines()
    assert "torch" in done.stderr
    assert "2.13.0" in done.stderr
    assert "2.99.0" in done.stderr


def test_a_nonexistent_package_is_reported_and_the_script_is_not_started(
    sandbox: CliSandbox, python: Path
) -> None:
    (sandbox.project.parent / "wheels").mkdir()
    require(sandbox, "no-such-runway")
    sandbox.write("train.py", "print('started')")
    done = sandbox.gpuproof("run", "train.py", "--python", python)
    assert done.returncode == 1
    assert "started" not in done.stdout.splitlines()
    assert "no-such-runway" in done.stderr


def test_a_stop_while_packages_are_installed_stops_that(sandbox: CliSandbox, python: Path) -> None:
    # A source package whose build does not come to an end.
    package = sandbox.project.parent / "endless"
    package.mkdir()
    (package / "setup.py").write_text(
        "import os, time\nopen(os.environ['ENDLESS_PID'], 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    (package / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    )
    (package / "backend.py").write_text("exec(open('setup.py').read())\n")
    pid_file = sandbox.project.parent / "pid"
    sandbox.environment["ENDLESS_PID"] = str(pid_file)
    sandbox.write("requirements.txt", f"{package}\n")
    sandbox.write("train.py", "print('started')")
    following = sandbox.start("run", "train.py", "--python", python)
    until(lambda: pid_file.exists() and pid_file.read_text(), "the build")
    following.send_signal(signal.SIGINT)
    out, output = following.communicate(timeout=300)
    assert following.returncode == 130
    assert "started" not in out.splitlines()
    assert "stopped before the script was started" in output
    until(lambda: not os.path.exists(f"/proc/{pid_file.read_text()}"), "the end of the build")


def test_a_source_with_a_setup_py_is_installed_and_run_as_a_module(sandbox: CliSandbox) -> None:
    sandbox.write(
        "setup.py",
        "from setuptools import setup\n"
        "setup(name='runwayjob', version='1', packages=['runwaymodel'], package_dir={'': 'src'})\n",
    )
    sandbox.write("src/runwaymodel/__init__.py", "LAYERS = 3\n")
    sandbox.write("train.py", "import runwaymodel\nprint(__spec__.name, runwaymodel.LAYERS)\n")
    # Tests use no network: the build uses the installed setuptools.
    sandbox.environment.update({"PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1"})
    done = sandbox.gpuproof("run", "train.py", "--no-check")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("train 3\n")
    assert not (sandbox.project / "src" / "runwayjob.egg-info").exists()
