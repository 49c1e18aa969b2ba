"""Batches: which requests are computed together, and that one bad request fails no other."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from typing import Any

import pytest

from gpuproof.serve.errors import RequestError
from gpuproof.serve.interface import BatchSettings, Model, Request, Response
from gpuproof.serve.workers.batching import HandlerTimeout, Outcome, Task, compute


class Doubling(Model):
    """Doubles numbers; the text of a body selects a fault."""

    def __init__(self, *, batching: bool = True, most: int = 32, fits: int = 1000) -> None:
        self.name = "model"
        self.batch = BatchSettings(batching, most)
        self.has_transform = False
        self.fits = fits
        self.batches: list[list[Any]] = []
        self.alone: list[Any] = []

    def decode(self, request: Request) -> Any:
        text = bytes(request.body).decode()
        if text == "undecodable":
            raise RequestError(400, "at 0")
        return text if text in ("bad", "odd", "silent", "exit", "late") else int(text)

    def batch_key(self, data: Any) -> Hashable | None:
        return {"odd": None, "bad": "int"}.get(data, "int") if isinstance(data, str) else "int"

    def predict(self, data: Any, request: Request) -> Any:
        self.alone.append(data)
        return self._double(data)

    def predict_batch(self, items: Sequence[Any]) -> list[Any]:
        self.batches.append(list(items))
        if len(items) > self.fits:
            raise MemoryError
        if "silent" in items:
            return []
        return [self._double(item) for item in items]

    def encode(self, prediction: Any, request: Request) -> Response:
        if request.accept == "image/png":
            raise RequestError(406, "no pictures")
        return Response(str(prediction).encode(), "text/plain")

    def transform(self, request: Request) -> Response:
        return Response(bytes(request.body).upper(), "text/plain")

    def unload(self) -> None: ...

    def _double(self, data: Any) -> Any:
        if data == "bad":
            raise ValueError("bad")
        if data == "exit":
            raise SystemExit(1)
        if data == "late":
            raise HandlerTimeout
        return 0 if isinstance(data, str) else data * 2


def answers(model: Model, *bodies: str, accept: str = "") -> tuple[list[Any], list[Task], list[str]]:
    tasks = [
        Task(n, Request(body.encode(), accept=accept), time.monotonic() + 300)
        for n, body in enumerate(bodies)
    ]
    outcomes: dict[int, Outcome] = {}
    messages: list[str] = []

    def answer(task: Task, outcome: Outcome) -> None:
        assert task.id not in outcomes, "answered twice"
        outcomes[task.id] = outcome

    compute(model, tasks, lambda f, *a: f(*a), answer, lambda: None, messages.append)
    found = [outcomes[task.id] for task in tasks]
    return [o.status if isinstance(o, RequestError) else o.body for o in found], tasks, messages


def test_what_arrived_together_is_computed_together() -> None:
    model = Doubling()
    assert answers(model, "1", "2", "3")[0] == [b"2", b"4", b"6"]
    assert model.batches == [[1, 2, 3]]


def test_a_single_request_is_not_a_batch() -> None:
    model = Doubling()
    assert answers(model, "1")[0] == [b"2"]
    assert (model.batches, model.alone) == ([], [1])


def test_without_batching_each_goes_alone() -> None:
    model = Doubling(batching=False)
    assert answers(model, "1", "2")[0] == [b"2", b"4"]
    assert model.batches == []


def test_what_has_no_key_goes_alone() -> None:
    model = Doubling()
    answers(model, "1", "odd", "2")
    assert (model.batches, model.alone) == ([[1, 2]], ["odd"])


def test_a_batch_is_no_larger_than_allowed() -> None:
    model = Doubling(most=2)
    answers(model, "1", "2", "3", "4", "5")
    assert (model.batches, model.alone) == ([[1, 2], [3, 4]], [5])


@pytest.mark.parametrize(("bad", "status"), [("bad", 500), ("exit", 500), ("undecodable", 400)])
def test_one_bad_request_fails_alone(bad: str, status: int) -> None:
    assert answers(Doubling(), "1", bad, "2")[0] == [b"2", status, b"4"]


def test_too_few_predictions_for_a_batch_are_no_answers() -> None:
    model = Doubling()
    found, _, messages = answers(model, "1", "silent")
    assert found == [b"2", b"0"]
    assert model.alone == [1, "silent"]
    assert "0 predictions were returned for 2 requests" in messages[0]


def test_a_batch_that_does_not_fit_is_halved_until_it_does() -> None:
    model = Doubling(fits=2)
    assert answers(model, *"12345678")[0] == [b"%d" % (2 * n) for n in range(1, 9)]
    assert [len(batch) for batch in model.batches] == [8, 4, 2, 2, 4, 2, 2]


def test_a_late_batch_is_not_tried_again() -> None:
    model = Doubling()
    assert answers(model, "1", "late")[0] == [504, 504]
    assert model.alone == []


def test_what_cannot_be_encoded_as_requested_is_refused() -> None:
    assert answers(Doubling(), "1", "2", accept="image/png")[0] == [406, 406]


def test_transform_has_the_whole_way() -> None:
    model = Doubling()
    model.has_transform = True
    assert answers(model, "a", "b")[0] == [b"A", b"B"]


def test_the_phases_are_measured() -> None:
    _, tasks, _ = answers(Doubling(), "1", "2")
    assert [task.batch_size for task in tasks] == [2, 2]
    assert all(task.decode > 0 and task.predict > 0 and task.encode > 0 for task in tasks)
    assert tasks[0].batch >= tasks[1].batch >= 0


def test_the_log_gets_the_traceback_and_the_client_does_not() -> None:
    _, _, messages = answers(Doubling(batching=False), "bad")
    assert "ValueError: bad" in messages[0]
    assert "Traceback" in messages[0]
