"""How a batch transform splits objects and assembles responses."""

from __future__ import annotations

import pytest

from gpuproof_emulator.execution.jobs.transform_records import MEGABYTE, TooLarge, assemble, split_object


def test_an_object_that_is_not_split_is_one_request() -> None:
    assert list(split_object(b"a\nb\n", "None", "MultiRecord", 6)) == [b"a\nb\n"]


def test_lines_are_one_request_each_or_packed() -> None:
    content = b"a\nb\r\n\nc"
    assert list(split_object(content, "Line", "SingleRecord", 6)) == [b"a", b"b", b"c"]
    assert list(split_object(content, "Line", "MultiRecord", 6)) == [b"a\nb\nc"]


def test_packed_lines_stay_below_the_limit() -> None:
    line = b"x" * (MEGABYTE // 2 - 10)
    bodies = list(split_object(b"\n".join([line] * 5), "Line", "MultiRecord", 1))
    assert [body.count(b"\n") + 1 for body in bodies] == [2, 2, 1]
    assert all(len(body) <= MEGABYTE for body in bodies)


def test_a_record_above_the_limit_is_an_error_and_zero_means_no_limit() -> None:
    large = b"x" * (MEGABYTE + 1)
    for split in ("None", "Line"):
        with pytest.raises(TooLarge, match="exceeds MaxPayloadInMB=1"):
            list(split_object(large, split, "SingleRecord", 1))
    assert list(split_object(large, "None", "SingleRecord", 0)) == [large]


def test_responses_are_concatenated_or_end_with_line_breaks() -> None:
    assert assemble([b"a", b"b\n"], "None") == b"ab\n"
    assert assemble([b"a", b"b\n"], "Line") == b"a\nb\n"
