"""Which failure caused the others."""

from __future__ import annotations

import json

import pytest

from gpuproof.agent.ranks.host_failure import (
    MESSAGE_LIMIT,
    Cause,
    Failure,
    exception_cause,
    exit_cause,
    first_failure,
    is_consequence,
)


@pytest.mark.parametrize(
    ("exception", "message", "cause"),
    [
        ("ValueError", "no data", Cause.OWN),
        ("SystemExit", "1", Cause.OWN),
        ("SIGKILL", "", Cause.OWN),
        ("SIGSEGV", "", Cause.OWN),
        ("torch.OutOfMemoryError", "CUDA out of memory", Cause.OWN),
        ("SIGABRT", "", Cause.ABORT),
        ("ConnectionResetError", "[Errno 104] Connection reset by peer", Cause.PEER),
        ("torch.distributed.DistNetworkError", "failed to recv, got 0 bytes", Cause.PEER),
        (
            "RuntimeError",
            "[gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:4242",
            Cause.PEER,
        ),
        (
            "torch.distributed.DistBackendError",
            "ncclRemoteError: A call failed possibly due to a network error",
            Cause.PEER,
        ),
        (
            "tensorflow.python.framework.errors_impl.UnavailableError",
            "Collective ops is aborted by: ...",
            Cause.PEER,
        ),
        ("SIGTERM", "", Cause.TERMINATED),
        ("KeyboardInterrupt", "", Cause.TERMINATED),
    ],
)
def test_an_exception_says_whether_another_process_may_have_caused_it(
    exception: str, message: str, cause: Cause
) -> None:
    assert exception_cause(exception, message) is cause


@pytest.mark.parametrize(
    ("code", "error", "cause"),
    [
        (1, "ValueError: no data", Cause.OWN),
        (1, None, Cause.OWN),
        (3, None, Cause.OWN),
        (1, "ConnectionResetError: [Errno 104] Connection reset by peer", Cause.PEER),
        (-15, None, Cause.TERMINATED),
        (143, None, Cause.TERMINATED),
        (-9, None, Cause.OWN),
        (-6, None, Cause.ABORT),
        (255, None, Cause.OWN),
    ],
)
def test_an_exit_code_says_so_too(code: int, error: str | None, cause: Cause) -> None:
    assert exit_cause(code, error) is cause


def test_a_killed_process_precedes_the_lost_connections_that_were_noticed_before() -> None:
    killed = Failure(12.0, "SIGKILL", host="algo-2", rank=3)
    lost = Failure(11.5, "ConnectionResetError", Cause.PEER, "algo-1", 0)
    stopped = Failure(11.0, "SIGTERM", Cause.TERMINATED, "algo-2", 2)
    assert first_failure([stopped, lost, killed]) is killed
    assert first_failure([stopped, lost]) is lost


def test_of_two_causes_the_first_in_time_counts() -> None:
    first, second = Failure(1.0, "a"), Failure(2.0, "b")
    assert first_failure([second, first]) is first


def test_only_errors_of_a_process_itself_need_no_other_cause() -> None:
    assert [is_consequence(Failure(0.0, "", cause)) for cause in Cause] == [False, True, True, True]


@pytest.mark.parametrize(
    ("host", "rank", "text"),
    [
        ("algo-2", 3, "algo-2, rank 3: ValueError: x"),
        ("algo-2", None, "algo-2: ValueError: x"),
        (None, 3, "rank 3: ValueError: x"),
        (None, None, "ValueError: x"),
    ],
)
def test_the_text_names_host_and_rank(host: str | None, rank: int | None, text: str) -> None:
    assert Failure(0.0, "ValueError: x", host=host, rank=rank).text == text


def test_a_failure_travels_as_json_with_a_message_of_limited_length() -> None:
    failure = Failure(
        1.5, "x" * 10_000, Cause.PEER, "algo-2", 3, "Stopped", "MaxRuntimeExceeded", "gpu-unused"
    )
    read = Failure.from_json(json.loads(json.dumps(failure.to_json())))
    assert read.message == "x" * MESSAGE_LIMIT
    assert (read.cause, read.host, read.rank, read.secondary, read.code) == (
        Cause.PEER,
        "algo-2",
        3,
        "MaxRuntimeExceeded",
        "gpu-unused",
    )


@pytest.mark.parametrize(
    "values", [{}, {"time": 1}, {"time": "x", "message": "", "cause": "own"}, {"cause": "odd"}, {"more": 1}]
)
def test_other_json_is_no_failure(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a failure"):
        Failure.from_json(values)
