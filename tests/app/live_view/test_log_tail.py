"""The last lines of an output, whatever the pieces in which it arrives."""

from __future__ import annotations

import pytest

from gpuproof.app.live_view.log_tail import LogTail


def lines(*pieces: bytes, keep: int = 3) -> tuple[str, ...]:
    tail = LogTail(keep)
    for piece in pieces:
        tail.add(piece)
    return tail.lines()


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pieces_may_end_anywhere(size: int) -> None:
    output = "eins\nzwei\ndrei €\nvier\nfü".encode()
    pieces = [output[at : at + size] for at in range(0, len(output), size)]
    assert lines(*pieces) == ("zwei", "drei €", "vier", "fü")


def test_a_progress_bar_is_shown_as_it_is_now() -> None:
    assert lines(b"epoch 1\n10%\r20%\r", b"30%") == ("epoch 1", "30%")
    assert lines(b"10%\r20%\r") == ("20%",)
    assert lines(b"10%\r100%\r\ndone\r\n") == ("100%", "done")


def test_colours_and_control_characters_are_left_out() -> None:
    assert lines(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07bell\x07\ttab\n") == ("red bell        tab",)


def test_a_line_that_never_ends_is_cut() -> None:
    tail = LogTail(3)
    for _ in range(100):
        tail.add(b"x" * 1000)
    (line,) = tail.lines()
    assert len(line) <= 4096
