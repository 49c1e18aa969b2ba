"""When the live line is drawn, by what the command has written."""

from __future__ import annotations

import pytest

from gpuproof.watch.prefix.live import LiveLine

LATER = 100.0


def line(*chunks: bytes, rows: int = 10) -> LiveLine:
    """A line after some output."""
    made = LiveLine(has_colour=False)
    made.set_text("GPU 0 50 %")
    made.resize(rows, 40)
    for chunk in chunks:
        made.note(chunk, now=0.0)
    return made


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"text\r\n",
        b"\x1b[32mgreen\x1b[0m\r\n",
        b"\x1b]0;title\x07text\r\n",
        b"\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\\r\n",
        b"\x1b[?1049hfull\x1b[?1049l\r\n",
        b"\x1b[?25lbar\x1b[?25h\r\n",
        b"\x1b[1;31mred\x1b[m\r\n",
        b"bar\rbar\x1b[K\r\n",
    ],
)
def test_it_is_drawn_at_the_start_of_a_line(output: bytes):
    assert line(output).draw(LATER) == b"GPU 0 50 %\x1b[K\r"


@pytest.mark.parametrize(
    "output",
    [
        b"prompt> ",
        b"bar\r",
        b"text\r\n\x1b[32mgreen\x1b[0m",
        b"\x1b[?1049hfull\r\n",
        b"\x1b[?47hfull\r\n",
        b"\x1b[?1;1049hfull\r\n",
        b"\x1b[?25lspinner\r\n",
        b"\x1b[31mred goes on\r\n",
        b"\x1b[38;5;0mblack goes on\r\n",
        b"one\r\ntwo\r\n\x1b[2A",
        b"one\r\ntwo\r\n\x1b[2Ahere\r\n",
        b"\x1b[5;10r\r\n",
        b"\x1b7\x1b[1;1Hstatus\x1b8\r\n",
        b"text\r\n\x1b",
        b"text\r\n\x1b[3",
        b"text\r\n\x1b]0;tit",
    ],
)
def test_it_is_not_drawn_where_it_could_harm(output: bytes):
    assert line(output).draw(LATER) == b""


def test_sequences_may_be_split_anywhere():
    output = b"\x1b]0;title\x1b\\\x1b[1;32mtext\x1b[0m\x1b[?25h\r\n"
    for cut in range(len(output)):
        assert line(output[:cut], output[cut:]).draw(LATER), cut


def test_a_screenful_of_lines_after_a_movement_is_enough():
    output = b"\x1b[2Amoved\r\n"
    assert not line(output, b"text\r\n" * 8).draw(LATER)
    assert line(output, b"text\r\n" * 9).draw(LATER)


def test_it_is_drawn_when_output_pauses_and_once_a_second():
    made = line(b"text\r\n")
    assert not made.draw(0.1)
    assert made.draw(0.5)
    assert not made.draw(1.0)
    assert made.draw(1.6)


def test_it_fits_into_the_window_and_is_erased_once():
    made = line()
    made.resize(10, 5)
    assert made.draw(LATER) == b"GPU \x1b[K\r"
    assert made.erase() == b"\r\x1b[K"
    assert made.erase() == b""
