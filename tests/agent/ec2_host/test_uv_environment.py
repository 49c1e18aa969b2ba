"""A real uv makes an environment on the host, from wheels in folders; without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.agent.ec2_host.setup.uv_environment import EnvironmentFailed, make_environment
from support.local_wheels import LocalWheels, local_wheels

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalWheels:
    """uv is in `PATH`, and finds only the wheels of a folder."""
    made = local_wheels(tmp_path / "wheels")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", str(Path(made.uv).parent), prepend=":")
    return made


def no_wait(_: float) -> None:
    pass


@pytest.mark.slow
def test_the_environment_has_the_packages_and_pip(wheels: LocalWheels, tmp_path: Path) -> None:
    folder = make_environment(tmp_path / "made", PYTHON, ["tiny==1.2.*"], no_wait)
    script = "import tiny, pip, sys; print(tiny.NUMBER, sys.prefix)"
    done = subprocess.run([str(folder / "python3"), "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["42", str(tmp_path / "made" / "environment")], done.stderr


@pytest.mark.slow
def test_a_version_that_does_not_exist_is_named_in_the_error(wheels: LocalWheels, tmp_path: Path) -> None:
    with pytest.raises(
        EnvironmentFailed, match=r"the Python environment was not made: uv pip install"
    ) as caught:
        make_environment(tmp_path / "made", PYTHON, ["tiny==9.*"], no_wait)
    assert "tiny" in str(caught.value).partition("status")[2]


def test_without_uv_pip_installs_it(
    wheels: LocalWheels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailed, match="-m pip install"):
        make_environment(tmp_path / "made", PYTHON, ["tiny"], no_wait)


def test_the_wait_can_end_it(wheels: LocalWheels, tmp_path: Path) -> None:
    class Ended(Exception):
        pass

    def end(_: float) -> None:
        raise Ended

    program = tmp_path / "slow" / "uv"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(program.parent), prepend=":")
        with pytest.raises(Ended):
            make_environment(tmp_path / "made", PYTHON, ["tiny"], end)
