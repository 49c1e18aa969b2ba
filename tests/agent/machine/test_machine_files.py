"""The work folder of a machine, and the command of its Jupyter server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuproof.agent.machine.main import RECORD, copy_source
from gpuproof.agent.machine.server_command import server_command, server_environment


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "lib").mkdir(parents=True)
    (folder / "a.py").write_text("one")
    (folder / "lib" / "b.py").write_text("one")
    return folder


@pytest.fixture
def work(source: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    assert copy_source(source, folder) == []
    return folder


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != RECORD
    }


def test_the_source_is_copied_into_an_empty_work_folder(work: Path) -> None:
    assert files(work) == {"a.py": "one", "lib/b.py": "one"}


def test_a_change_of_the_source_replaces_a_file_that_was_not_changed_on_the_machine(
    source: Path, work: Path
) -> None:
    (source / "a.py").write_text("two")
    (source / "new.py").write_text("new")
    assert copy_source(source, work) == []
    assert files(work) == {"a.py": "two", "new.py": "new", "lib/b.py": "one"}


def test_a_change_on_the_machine_is_kept(source: Path, work: Path) -> None:
    (work / "a.py").write_text("mine")
    (work / "notes.ipynb").write_text("{}")
    assert copy_source(source, work) == []
    assert files(work) == {"a.py": "mine", "lib/b.py": "one", "notes.ipynb": "{}"}


def test_a_file_that_was_changed_in_both_places_is_kept_and_named(source: Path, work: Path) -> None:
    (work / "a.py").write_text("mine")
    (source / "a.py").write_text("two")
    assert copy_source(source, work) == ["a.py"]
    assert files(work)["a.py"] == "mine"


def test_a_file_that_was_deleted_on_the_machine_stays_deleted(source: Path, work: Path) -> None:
    (work / "a.py").unlink()
    assert copy_source(source, work) == []
    assert "a.py" not in files(work)


def test_the_server_listens_on_the_loopback_interface_only_and_its_command_has_no_token(
    tmp_path: Path,
) -> None:
    command = server_command(tmp_path, 8888)
    assert command is not None
    assert command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert "--ServerApp.ip=127.0.0.1" in command
    assert "--ServerApp.port=8888" in command
    assert f"--ServerApp.root_dir={tmp_path}" in command
    assert not [word for word in command if "token" in word]


def test_the_classic_server_is_started_by_its_own_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if name == "notebook" else None)
    command = server_command(tmp_path, 8888, lambda _: "6.5.7")
    assert command is not None
    assert command[2] == "notebook"
    assert f"--NotebookApp.notebook_dir={tmp_path}" in command
    newer = server_command(tmp_path, 8888, lambda _: "7.2.0")
    assert newer is not None
    assert f"--ServerApp.root_dir={tmp_path}" in newer


def test_an_interpreter_without_a_server_has_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert server_command(tmp_path, 8888) is None


def test_a_server_that_was_installed_for_the_run_finds_its_files(tmp_path: Path) -> None:
    assert server_environment(tmp_path, "t") == {"JUPYTER_TOKEN": "t"}
    (tmp_path / "share" / "jupyter").mkdir(parents=True)
    variables = server_environment(tmp_path, "t")
    assert variables["JUPYTERLAB_DIR"] == f"{tmp_path}/share/jupyter/lab"
    assert variables["JUPYTER_PATH"].split(":")[0] == f"{tmp_path}/share/jupyter"
