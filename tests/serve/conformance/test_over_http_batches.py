"""Batching of requests: which handlers opt in, what is batched, and that requests do not affect each other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.cli_sandbox import until
from support.model_server import Answer, Server
from support.raw_connections import as_folder, served

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve-batches")]

HANDLER = """
import json, os, pathlib, time
import numpy as np

batch = True

def model_fn(model_dir):
    return pathlib.Path(model_dir)

def input_fn(body, content_type):
    document = json.loads(body)
    return np.array(document["rows"], document.get("dtype", "float32"))

def predict_fn(data, model):
    if (data == -1).any():
        (model / "busy").touch()
        while not (model / "go").exists():
            time.sleep(0.01)
        (model / "go").unlink()
        (model / "busy").unlink()
    DOES
    # Each row: its sum, and how many rows were computed with it.
    return np.stack([data.reshape(len(data), -1).sum(1), np.full(len(data), len(data))], 1)
"""


def handler(does: str = "pass") -> str:
    return HANDLER.replace("DOES", does)


def together(server: Server, *requests: dict[str, object]) -> list[Answer]:
    """The answers to requests that all wait when the worker becomes free."""
    with ThreadPoolExecutor(len(requests) + 1) as pool:
        first = pool.submit(server.predict, {"rows": [[-1]]})
        until((server.log.parent / "model" / "busy").exists, "the first request to be at work")
        answers: list[object] = []
        for number, request in enumerate(requests):
            answers.append(pool.submit(server.predict, request))
            server.wait_for_requests(number + 2)
        (server.log.parent / "model" / "go").touch()
        assert first.result().status == 200
        return [answer.result() for answer in answers]  # type: ignore[attr-defined]


def sizes(answers: list[Answer]) -> list[float]:
    return [answer.json[0][1] for answer in answers]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    fails = "assert not (data == 13).any(), 'thirteen'"
    with served(tmp_path_factory.mktemp("batches"), handler(fails)) as server:
        yield server


def test_requests_that_wait_are_computed_together_and_each_gets_its_own_rows(server: Server) -> None:
    answers = together(server, *({"rows": [[n, 100]]} for n in range(7)))
    assert [answer.json[0][0] for answer in answers] == [100 + n for n in range(7)]
    assert sizes(answers) == [7] * 7


def test_requests_of_several_rows_get_all_of_theirs(server: Server) -> None:
    answers = together(server, *({"rows": [[n, n]] * n} for n in (1, 2, 3)))
    assert [answer.json for answer in answers] == [[[2 * n, 6]] * n for n in (1, 2, 3)]


def test_only_equal_shapes_go_together(server: Server) -> None:
    wide, narrow = {"rows": [[1, 2, 3]]}, {"rows": [[1, 2]]}
    assert sizes(together(server, wide, narrow, wide, narrow, wide)) == [3, 2, 3, 2, 3]


def test_only_equal_types_go_together(server: Server) -> None:
    whole, broken = {"rows": [[1, 2]], "dtype": "int64"}, {"rows": [[1, 2]]}
    assert sizes(together(server, whole, broken, whole)) == [2, 1, 2]


def test_a_request_that_the_model_refuses_fails_alone(server: Server) -> None:
    answers = together(server, {"rows": [[1]]}, {"rows": [[13]]}, {"rows": [[2]]})
    assert [answer.status for answer in answers] == [200, 500, 200]
    assert [answers[0].json[0][0], answers[2].json[0][0]] == [1, 2]


def test_a_request_that_cannot_be_decoded_fails_alone(server: Server) -> None:
    answers = together(server, {"rows": [[1]]}, {"rows": [["x"]]}, {"rows": [[2]]})
    assert answers[1].status in (400, 500)
    assert sizes([answers[0], answers[2]]) == [2, 2]


def test_a_lone_request_waits_for_no_others(server: Server) -> None:
    def counted(*bounds: str) -> list[float]:
        name = "gpuproof_phase_seconds_bucket"
        return [server.metric(name, phase="batch", le=bound) for bound in bounds]

    before = counted("0.001", "+Inf")
    for _ in range(50):
        assert sizes([server.predict({"rows": [[1]]})]) == [1]
    quick, all_of_them = (now - then for now, then in zip(counted("0.001", "+Inf"), before, strict=True))
    assert all_of_them == 50
    # A batch's clock would be milliseconds in each; a loaded machine takes them from some.
    assert quick > 25


def test_the_metrics_tell_how_large_batches_were(server: Server) -> None:
    before = server.metric("gpuproof_batch_size_bucket", le="4")
    below = server.metric("gpuproof_batch_size_bucket", le="2")
    together(server, *({"rows": [[n]]} for n in range(4)))
    assert server.metric("gpuproof_batch_size_bucket", le="4") - before == 5
    assert server.metric("gpuproof_batch_size_bucket", le="2") - below == 1


OUT_OF_MEMORY = {
    "python": "raise MemoryError",
    "torch": "raise type('OutOfMemoryError', (RuntimeError,), {})('CUDA out of memory. Tried to allocate 2 GiB')",
    "old torch": "raise RuntimeError('CUDA out of memory. Tried to allocate 20.00 MiB')",
    "tensorflow": "raise type('ResourceExhaustedError', (Exception,), {})('OOM when allocating tensor')",
}


@pytest.mark.parametrize("whose", OUT_OF_MEMORY)
def test_a_batch_that_does_not_fit_into_memory_is_halved_until_it_does(tmp_path: Path, whose: str) -> None:
    does = f"if len(data) > 2: {OUT_OF_MEMORY[whose]}"
    with served(tmp_path, handler(does)) as server:
        before = server.workers
        answers = together(server, *({"rows": [[n]]} for n in range(8)))
        assert [answer.json for answer in answers] == [[[n, 2]] for n in range(8)]
        assert server.workers == before
        assert "out of memory" in server.log_text


def test_one_request_that_does_not_fit_fails_alone_and_kills_no_process(tmp_path: Path) -> None:
    with served(tmp_path, handler("if (data == 13).any(): raise MemoryError")) as server:
        before = server.workers
        answers = together(server, *({"rows": [[n]]} for n in (1, 13, 2, 3)))
        assert [answer.status for answer in answers] == [200, 500, 200, 200]
        assert "memory" in answers[1].json["error"]
        assert server.workers == before


def test_a_process_that_dies_in_a_batch_fails_those_in_it_at_once_and_is_replaced(tmp_path: Path) -> None:
    with served(tmp_path, handler("if (data == 13).any(): os._exit(9)")) as server:
        answers = together(server, *({"rows": [[n]]} for n in (1, 13, 2)))
        assert {answer.status for answer in answers} == {500}
        assert sizes([server.predict({"rows": [[1]]})]) == [1]


def test_a_handlers_own_predict_fn_that_did_not_opt_in_gets_one_request_at_a_time(tmp_path: Path) -> None:
    with served(tmp_path, handler().replace("batch = True", "")) as server:
        assert sizes(together(server, *({"rows": [[n]]} for n in range(4)))) == [1] * 4


def test_a_batch_fn_gets_all_that_wait_whatever_their_shapes(tmp_path: Path) -> None:
    takes_lists = handler().replace("batch = True\n", "").replace("def predict_fn", "def alone")
    takes_lists += "\ndef batch_fn(items, model):\n    if len(items) == 1: alone(items[0], model)\n"
    takes_lists += "    return [[[float(item.sum()), len(items)]] for item in items]\n"
    with served(tmp_path, takes_lists) as server:
        answers = together(server, {"rows": [[1, 2, 3]]}, {"rows": [[4]]}, {"rows": [[5, 6]]})
        assert [answer.json for answer in answers] == [[[6.0, 3]], [[4.0, 3]], [[11.0, 3]]]


@pytest.mark.parametrize("how", ["handler", "flag", "environment"])
def test_no_batch_is_larger_than_max_batch_size(tmp_path: Path, how: str) -> None:
    text = handler().replace(
        "batch = True", "batch = True\nmax_batch_size = 3" if how == "handler" else "batch = True"
    )
    words = ("--max-batch-size", "3") if how == "flag" else ()
    environment = {"GPUPROOF_SERVE_MAX_BATCH_SIZE": "3"} if how == "environment" else {}
    with served(tmp_path, text, *words, **environment) as server:
        found = sizes(together(server, *({"rows": [[n]]} for n in range(7))))
    assert max(found) == 3
    assert len(found) == 7


def test_the_environment_can_switch_batches_off(tmp_path: Path) -> None:
    with served(tmp_path, handler(), GPUPROOF_SERVE_BATCH="off") as server:
        assert sizes(together(server, *({"rows": [[n]]} for n in range(3)))) == [1] * 3


def test_a_default_model_without_a_batch_dimension_is_never_batched(tmp_path: Path) -> None:
    folder = as_folder(
        tmp_path,
        """
        import torch

        class OverSteps(torch.nn.Module):
            def forward(self, steps):
                return steps - steps.mean(0)

        def model_fn(model_dir):
            return OverSteps()
        """,
    )
    with served(tmp_path, folder) as server, ThreadPoolExecutor(8) as pool:
        bodies = [[[float(n)], [n + 2.0]] for n in range(40)]
        answers = list(pool.map(server.predict, bodies))
    assert [answer.json for answer in answers] == [[[-1.0], [1.0]]] * 40
