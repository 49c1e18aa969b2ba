"""GPUproof's own messages beside the script's output."""

from __future__ import annotations

import io
import os
import pty
import termios
from collections.abc import Iterator
from typing import TextIO

import pytest

from gpuproof.cli.console import Console

CLEAR = "\r\x1b[K"


class Terminal:
    """A terminal whose screen the test reads."""

    def __init__(self) -> None:
        self._screen, theirs = pty.openpty()
        attributes = termios.tcgetattr(theirs)
        attributes[1] &= ~termios.OPOST  # newlines as they are written
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        self.text: TextIO = os.fdopen(theirs, "w")

    def seen(self) -> str:
        """What has come since this was last called."""
        # A mark after it shows when all of it has come through the terminal.
        print("\0", end="", file=self.text, flush=True)
        seen = b""
        while not seen.endswith(b"\0"):
            seen += os.read(self._screen, 1 << 16)
        return seen[:-1].decode()

    def close(self) -> None:
        self.text.close()
        os.close(self._screen)


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


class Mirror(io.RawIOBase):
    """Standard output on the same terminal."""

    def __init__(self, text: TextIO) -> None:
        self._text = text

    def write(self, content: object) -> int:
        assert isinstance(content, bytes)
        return os.write(self._text.fileno(), content)


@pytest.fixture
def console(terminal: Terminal) -> Console:
    return Console(own=terminal.text, output=Mirror(terminal.text))  # type: ignore[arg-type]


def test_on_a_terminal_the_progress_line_is_replaced(console: Console, terminal: Terminal) -> None:
    console.progress("one")
    console.progress("two")
    assert terminal.seen() == f"one{CLEAR}two"
    console.end_progress()
    assert terminal.seen() == CLEAR
    console.end_progress()
    assert terminal.seen() == ""


def test_lines_take_the_place_of_the_progress_line(console: Console, terminal: Terminal) -> None:
    console.progress("working")
    console.print("done")
    assert terminal.seen() == f"working{CLEAR}done\n"


def test_after_output_the_progress_line_is_drawn_again(console: Console, terminal: Terminal) -> None:
    console.progress("working")
    console.write(b"epoch 1\n")
    assert terminal.seen() == f"working{CLEAR}epoch 1\nworking"


def test_a_line_without_an_end_is_unchanged(console: Console, terminal: Terminal) -> None:
    console.progress("working")
    console.write(b"epoch 1: ")
    terminal.seen()
    console.progress("still working")
    assert terminal.seen() == ""
    console.write(b"done\n")
    assert terminal.seen() == "done\nstill working"


def test_a_line_of_ours_does_not_hang_on_to_one_without_an_end(console: Console, terminal: Terminal) -> None:
    console.write(b"epoch 1: ")
    console.print("note")
    assert terminal.seen() == "epoch 1: \nnote\n"


def test_a_progress_line_never_wraps(
    console: Console, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    console.progress("x" * 50)
    assert terminal.seen() == "x" * 9


def test_labels_line_up_and_stand_back(console: Console, terminal: Terminal) -> None:
    console.label("run", "train-1\nsecond line")
    assert terminal.seen() == "\x1b[2mrun        \x1b[0mtrain-1\n           second line\n"


def test_no_color_is_obeyed(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(own=terminal.text)
    console.label("run", "train-1")
    console.progress("working")
    assert terminal.seen() == "run        train-1\nworking"


@pytest.mark.parametrize(("variable", "value"), [("CI", "true"), ("TERM", "dumb")])
def test_without_a_terminal_there_is_no_progress_line(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    console = Console(own=terminal.text)
    console.progress("working")
    console.label("run", "train-1")
    console.end_progress()
    assert terminal.seen() == "run        train-1\n"


def test_on_a_pipe_the_output_comes_byte_for_byte_and_nothing_with_it() -> None:
    own, output = io.StringIO(), io.BytesIO()
    console = Console(own=own, output=output)
    console.progress("working")
    console.write(b"\xff\xfe no end")
    console.print("note")
    console.write(b"\n\x1b[31m")
    console.end_progress()
    assert output.getvalue() == b"\xff\xfe no end\n\x1b[31m"
    assert own.getvalue() == "note\n"


@pytest.mark.parametrize(("encoding", "able"), [("utf-8", True), ("ascii", False), ("iso8859-1", False)])
def test_block_characters_are_for_streams_that_take_them(encoding: str, able: bool) -> None:
    assert Console(own=io.TextIOWrapper(io.BytesIO(), encoding)).unicode is able
