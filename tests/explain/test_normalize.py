"""Lines without what others put before them."""

from __future__ import annotations

import pytest

from gpuproof.explain.normalize import normalize_line


@pytest.mark.parametrize(
    "raw",
    [
        "ValueError: x",
        "2026-11-20T09:14:02.118Z ValueError: x",
        "2026-11-20 09:14:02,118 ValueError: x",
        "2026-11-20 09:14:02.118344: ValueError: x",
        "[1,mpirank:0,algo-1]<stderr>:ValueError: x",
        "[1,3]<stderr>:ValueError: x",
        "algo-1-x7k2p  | ValueError: x",
        "tmp_algo-1-abc_1  | ValueError: x",
        "[rank0]: ValueError: x",
        "[default3]:ValueError: x",
        "\x1b[31mValueError\x1b[0m: x",
        "\x1b]8;;http://x\x07ValueError: x",
        "(train pid=4411) ValueError: x",
        "Nov 20 09:14:02 ip-10-0-1-23 train[411]: ValueError: x",
        '{"timestamp": 1763630042118, "message": "ValueError: x\\n"}',
        '{"log":"ValueError: x\\n","stream":"stderr","time":"2026-11-20T09:14:02Z"}',
        '            "message": "ValueError: x",',
        "2026-11-20T09:14:02.118000+00:00 job/algo-1-1763630042 [1,2]<stderr>:ValueError: x",
    ],
)
def test_the_line_is_what_the_program_printed(raw: str) -> None:
    assert normalize_line(raw.encode()) == "ValueError: x"


def test_indentation_that_means_something_stays() -> None:
    assert normalize_line(b'[1,2]<stderr>:  File "a.py", line 1') == '  File "a.py", line 1'
    assert normalize_line(b"2026-11-20T09:14:02Z     step()") == "    step()"


def test_a_packed_traceback_becomes_its_lines() -> None:
    assert (
        normalize_line(b'{"message": "Traceback:\\n  File\\nKeyError: 1\\n"}')
        == "Traceback:\n  File\nKeyError: 1"
    )


def test_what_is_neither_utf8_nor_json_is_taken_as_it_is() -> None:
    assert normalize_line(b"\xff\xfe oops") == "\ufffd\ufffd oops"
    assert normalize_line(b'{"message": "cut off') == '{"message": "cut off'
