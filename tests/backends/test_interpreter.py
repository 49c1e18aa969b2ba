"""Which Python runs the script."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpuproof.backends.interpreter import find_interpreter
from gpuproof.errors import UsageError

OWN = "/own/bin/python"


def environment_at(folder: Path) -> Path:
    """Make a folder that looks like a virtual environment; returns its python."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return python


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """An environment as `uv tool install` makes it."""
    folder = tmp_path / "tool"
    folder.mkdir()
    (folder / "uv-receipt.toml").touch()
    return folder


def test_it_is_the_one_that_runs_gpuproof() -> None:
    assert find_interpreter(None, {}, OWN, "/nowhere") == OWN


def test_an_active_environment_changes_nothing_where_gpuproof_lives_in_one(tmp_path: Path) -> None:
    environment_at(tmp_path / "venv")
    assert find_interpreter(None, {"VIRTUAL_ENV": str(tmp_path / "venv")}, OWN, "/nowhere") == OWN


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_for_gpuproof_as_a_tool_it_is_the_active_environments(
    tool: Path, tmp_path: Path, variable: str
) -> None:
    python = environment_at(tmp_path / "venv")
    assert find_interpreter(None, {variable: str(tmp_path / "venv")}, OWN, str(tool)) == str(python)


def test_pipx_makes_a_tool_too(tmp_path: Path) -> None:
    (tmp_path / "pipx_metadata.json").touch()
    python = environment_at(tmp_path / "venv")
    found = find_interpreter(None, {"VIRTUAL_ENV": str(tmp_path / "venv")}, OWN, str(tmp_path))
    assert found == str(python)


@pytest.mark.parametrize("variables", [{}, {"VIRTUAL_ENV": ""}, {"VIRTUAL_ENV": "/nowhere/at/all"}])
def test_a_tool_without_an_active_environment_uses_its_own(tool: Path, variables: dict[str, str]) -> None:
    assert find_interpreter(None, variables, OWN, str(tool)) == OWN


def test_the_requested_interpreter_comes_first(tool: Path, tmp_path: Path) -> None:
    environment_at(tmp_path / "active")
    asked = environment_at(tmp_path / "asked")
    found = find_interpreter(str(asked), {"VIRTUAL_ENV": str(tmp_path / "active")}, OWN, str(tool))
    assert found == str(asked)


def test_an_environments_folder_means_its_python(tmp_path: Path) -> None:
    python = environment_at(tmp_path / "my venv")
    assert find_interpreter(str(tmp_path / "my venv")) == str(python)


def test_a_link_is_not_resolved_since_it_identifies_the_environment(tmp_path: Path) -> None:
    python = environment_at(tmp_path / "venv")
    assert find_interpreter(str(python)) == str(python)
    assert python.resolve() != python


def test_a_name_is_looked_up_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = environment_at(tmp_path / "venv")
    monkeypatch.setenv("PATH", str(python.parent))
    assert find_interpreter("python") == str(python)


def test_a_name_is_not_taken_for_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = environment_at(tmp_path / "venv")
    (tmp_path / "project" / "python").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("PATH", str(python.parent))
    assert find_interpreter("python") == str(python)


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = environment_at(tmp_path / "venv")
    monkeypatch.chdir(tmp_path)
    assert find_interpreter("venv/bin/python") == str(python)
    assert find_interpreter("venv") == str(python)


def test_a_tilde_is_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = environment_at(tmp_path / "venv")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_interpreter("~/venv") == str(python)


def test_what_is_not_an_interpreter_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("")
    for asked in ("/nowhere/python", str(tmp_path / "empty"), str(tmp_path / "text"), "no-such-python", ""):
        with pytest.raises(UsageError, match=f"--python {asked}") as caught:
            find_interpreter(asked)
        assert caught.value.remedy


def test_this_very_interpreter_is_found() -> None:
    assert os.access(find_interpreter(None), os.X_OK)
