"""GPUproof's folders and environment variables."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuproof import settings
from gpuproof.errors import GPUproofError
from gpuproof.settings import cache_dir, cache_path, colour, interactive, own_folders, state_dir


@pytest.fixture(autouse=True)
def _nothing_is_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in (
        "GPUPROOF_STATE_DIR",
        "GPUPROOF_CACHE_DIR",
        "XDG_STATE_HOME",
        "XDG_CACHE_HOME",
        "CI",
        "NO_COLOR",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "home").mkdir()
    (tmp_path / "tmp").mkdir()
    settings._made.cache_clear()
    yield
    settings._made.cache_clear()


def test_by_default_they_are_where_the_xdg_standard_puts_them(tmp_path: Path) -> None:
    assert state_dir() == tmp_path / "home" / ".local" / "state" / "gpuproof"
    assert cache_dir() == tmp_path / "home" / ".cache" / "gpuproof"
    assert state_dir().is_dir()
    assert state_dir().stat().st_mode & 0o077 == 0


def test_the_standards_variables_move_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    assert (state_dir(), cache_dir()) == (tmp_path / "s" / "gpuproof", tmp_path / "c" / "gpuproof")


@pytest.mark.parametrize("value", ["", "relative/path"])
def test_a_relative_standard_variable_is_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", value)
    assert state_dir() == tmp_path / "home" / ".local" / "state" / "gpuproof"


def test_our_own_variables_go_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    monkeypatch.setenv("GPUPROOF_STATE_DIR", "~/mine")
    assert state_dir() == tmp_path / "home" / "mine"


def test_our_own_variable_that_cannot_be_written_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "file" / "runs"))
    with pytest.raises(
        GPUproofError, match=r"GPUPROOF_STATE_DIR=.* cannot be written: not a directory"
    ) as caught:
        state_dir()
    assert caught.value.remedy


class TestHomeThatCannotBeWritten:
    @pytest.fixture(autouse=True)
    def _home_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "home").rmdir()
        (tmp_path / "home").touch()

    def shared(self, tmp_path: Path) -> Path:
        return tmp_path / "tmp" / f"gpuproof-{os.getuid()}"

    def test_the_temporary_folder_is_used_with_one_warning(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert state_dir() == self.shared(tmp_path) / "state"
        state_dir()
        assert capsys.readouterr().err.count("Runs are kept in") == 1
        assert self.shared(tmp_path).stat().st_mode & 0o077 == 0

    def test_a_folder_that_is_open_to_others_is_not_trusted(self, tmp_path: Path) -> None:
        self.shared(tmp_path).mkdir()
        self.shared(tmp_path).chmod(0o777)
        with pytest.raises(GPUproofError, match="other users can write to it"):
            state_dir()

    def test_a_link_of_another_user_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        self.shared(tmp_path).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(GPUproofError, match="belongs to another user") as caught:
            state_dir()
        assert "GPUPROOF_STATE_DIR" in str(caught.value.remedy)
        assert list((tmp_path / "elsewhere").iterdir()) == []

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
    def test_a_folder_of_another_user_is_not_used(self, tmp_path: Path) -> None:
        self.shared(tmp_path).mkdir(mode=0o700)
        os.chown(self.shared(tmp_path), 12345, 12345)
        with pytest.raises(GPUproofError, match="belongs to another user"):
            state_dir()


def test_looking_for_the_cache_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_path() == tmp_path / "home" / ".cache" / "gpuproof"
    monkeypatch.setenv("GPUPROOF_CACHE_DIR", str(tmp_path / "mine"))
    assert cache_path() == tmp_path / "mine"
    assert list((tmp_path / "home").iterdir()) == []


def test_paths_are_returned_without_creating_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "mine"))
    assert own_folders() == [tmp_path / "mine", tmp_path / "home" / ".cache" / "gpuproof"]
    assert not (tmp_path / "mine").exists()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_looked_at_and_a_pipe_is_not() -> None:
    assert interactive(Terminal())
    assert colour(Terminal())
    assert not interactive(io.StringIO())
    assert not colour(io.StringIO())
    assert not interactive(object())


@pytest.mark.parametrize(
    ("value", "watched"), [("true", False), ("1", False), ("", True), ("false", True), ("0", True)]
)
def test_ci_looks_at_nothing(monkeypatch: pytest.MonkeyPatch, value: str, watched: bool) -> None:
    monkeypatch.setenv("CI", value)
    assert interactive(Terminal()) is watched


@pytest.mark.parametrize(("value", "coloured"), [("1", False), ("0", False), ("", True)])
def test_no_color_takes_the_colours_and_leaves_the_progress(
    monkeypatch: pytest.MonkeyPatch, value: str, coloured: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    assert colour(Terminal()) is coloured
    assert interactive(Terminal())


def test_a_dumb_terminal_gets_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert not interactive(Terminal())
    assert not colour(Terminal())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user whom the system does not know")
def test_without_a_home_it_still_works() -> None:
    code = "import os; from gpuproof.settings import state_dir; os.setuid(54321); print(state_dir())"
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    with tempfile.TemporaryDirectory(dir="/tmp") as spare:
        Path(spare).chmod(0o777)
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**environment, "TMPDIR": spare},
            capture_output=True,
            text=True,
        )
    assert done.stdout.strip() == f"{spare}/gpuproof-54321/state", done.stderr
    assert "there is no home folder" in done.stderr
