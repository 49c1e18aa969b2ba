"""The format of traces."""

from __future__ import annotations

import json

import pytest

from gpuproof.trace.document import (
    GEMM,
    VERSION,
    Input,
    Memory,
    Note,
    Operator,
    Trace,
    TraceFailure,
    read_trace,
    write_failure,
    write_trace,
)

TRACE = Trace(
    framework="torch",
    framework_version="2.13.0",
    mode="training",
    steps=3,
    operators=[
        Operator("aten.mm", GEMM, "float32", "forward", 2.0e9, 3.0e6, 1, ((8, 4), (4, 2)), 3, (1, 8, 2, 4))
    ],
    memory=Memory([(512, 0), (1024, 5)], [1, 2, -2, 0]),
    host_operators=12,
    parameters=8,
    trainable=8,
    model_bytes=32,
    input=Input(samples=8, host_s=0.25, steps_per_epoch=100),
    assumptions=[Note("value-dependent-branch", "the loss is 0.5", "train.py", 7)],
)


def test_a_trace_is_read_as_it_was_written() -> None:
    assert read_trace(write_trace(TRACE)) == TRACE
    assert TRACE.flops == 6.0e9


def test_a_failure_is_read_as_it_was_written() -> None:
    failure = TraceFailure("no-step", "no optimizer step was made", "pass --mode inference", "train.py", 3)
    assert read_trace(write_failure(failure)) == failure


def test_members_of_a_later_release_are_ignored() -> None:
    document = json.loads(write_trace(TRACE))
    document["trace"]["new"] = document["trace"]["operators"][0]["new"] = 1
    assert read_trace(json.dumps(document)) == TRACE


@pytest.mark.parametrize("text", ["[]", "{}", json.dumps({"version": VERSION + 1, "trace": {}})])
def test_another_version_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="no trace of version"):
        read_trace(text)
