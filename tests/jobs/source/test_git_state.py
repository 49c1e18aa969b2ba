"""The commit of a source folder, from real repositories."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gpuproof.jobs.source.git_state import git_state

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=me", "-c", "user.email=me@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *settings, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "train.py").write_text("1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def is_dirty(folder: Path) -> bool:
    state = git_state(folder)
    assert state is not None
    return state.is_dirty


def test_a_clean_folder_is_at_its_commit(repository: Path):
    assert git_state(repository / "job") == (git(repository, "rev-parse", "HEAD"), False)


def test_a_change_and_an_untracked_file_make_it_dirty(repository: Path):
    (repository / "job" / "train.py").write_text("2\n")
    assert is_dirty(repository / "job")
    git(repository, "checkout", "-q", ".")
    assert not is_dirty(repository / "job")
    (repository / "job" / "new.py").write_text("3\n")
    assert is_dirty(repository / "job")


def test_an_ignored_file_and_a_change_elsewhere_do_not(repository: Path):
    (repository / "notes.txt").write_text("x\n")
    (repository / "job" / ".gitignore").write_text("*.log\n.gitignore\n")
    (repository / "job" / "out.log").write_text("x\n")
    assert not is_dirty(repository / "job")


def test_a_folder_outside_any_repository_has_no_state(tmp_path: Path):
    assert git_state(tmp_path) is None


def test_a_repository_without_a_commit_has_no_state(tmp_path: Path):
    git(tmp_path, "init", "-q")
    assert git_state(tmp_path) is None


def test_variables_of_a_hook_do_not_name_another_repository(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    other = tmp_path_factory.mktemp("other")
    git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    state = git_state(repository / "job")
    monkeypatch.delenv("GIT_DIR")
    assert state == (git(repository, "rev-parse", "HEAD"), False)


def test_no_program_that_the_repository_names_is_run(repository: Path):
    mark = repository / "ran"
    hook = repository / "hook.sh"
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(hook))
    assert git_state(repository / "job") is not None
    assert not mark.exists()


def test_without_git_there_is_no_state(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", os.fspath(tmp_path / "nothing"))
    assert git_state(repository / "job") is None
