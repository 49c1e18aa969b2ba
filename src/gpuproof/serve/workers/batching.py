"""Computes what has arrived: decodes each request, computes those together that may go together, encodes each answer.

One bad request never fails its neighbours: a batch that fails is computed again one by one, and one that does not fit
into memory in halves.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from typing import Any, Callable, Protocol, Union

from gpuproof.serve.errors import RequestError
from gpuproof.serve.model.interface import Model, Request, Response, is_out_of_memory
from gpuproof.serve.model.tracebacks import of_handler, place_of

Outcome = Union[Response, RequestError]


class Late(BaseException):
    """Raised inside a user's function that has run for longer than a request may take.

    No `Exception`: a handler's own `except Exception` must not swallow it.
    """


class Task:
    """One request on its way through a predictor. All times in seconds, `taken` on `time.monotonic`'s clock."""

    def __init__(self, number: int, request: Request, deadline: float) -> None:
        self.id = number
        self.request = request
        self.deadline = deadline
        self.data: Any = None
        self.taken = 0.0
        self.decode = 0.0
        self.decoded = 0.0
        self.batch = 0.0
        self.predict = 0.0
        self.encode = 0.0
        self.batch_size = 0


class Guard(Protocol):
    """Runs one user's function."""

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any: ...


def compute(
    model: Model,
    tasks: Sequence[Task],
    guard: Guard,
    answer: Callable[[Task, Outcome], None],
    flush: Callable[[], None],
    say: Callable[[str], None],
) -> None:
    """Answer every task.

    Args:
        guard: calls the user's functions.
        answer: told each outcome, in any order.
        flush: told when there will be no more answers for a while.
        say: told what the log should hold.
    """
    _Round(model, guard, answer, flush, say).run(tasks)


class _Round:
    def __init__(
        self,
        model: Model,
        guard: Guard,
        answer: Callable[[Task, Outcome], None],
        flush: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self._model = model
        self._guard = guard
        self._answer = answer
        self._flush = flush
        self._say = say

    def run(self, tasks: Sequence[Task]) -> None:
        if self._model.has_transform:
            for task in tasks:
                self._transform(task)
                self._flush()
            return
        for group in self._groups(tasks):
            self._predict(group)
            self._flush()

    def _transform(self, task: Task) -> None:
        began = time.monotonic()
        try:
            outcome: Outcome = self._guard(self._model.transform, task.request)
        except BaseException as error:  # noqa: BLE001 - `sys.exit` in a handler is the request's failure
            outcome = self._refusal(error)
        task.predict = time.monotonic() - began
        task.batch_size = 1
        self._answer(task, outcome)

    def _groups(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """Decoded tasks, those together that may be computed together, in order of arrival; the others are answered."""
        groups: list[list[Task]] = []
        open_groups: dict[Hashable, list[Task]] = {}
        most = self._model.batch.max_batch_size
        for task in tasks:
            if not self._decode(task):
                continue
            key = self._key(task) if self._model.batch.enabled and len(tasks) > 1 else None
            group = None if key is None else open_groups.get(key)
            if group is not None and len(group) < most:
                group.append(task)
                continue
            groups.append([task])
            if key is not None:
                open_groups[key] = groups[-1]
        self._flush()
        return groups

    def _decode(self, task: Task) -> bool:
        began = time.monotonic()
        try:
            task.data = self._guard(self._model.decode, task.request)
        except BaseException as error:  # noqa: BLE001 - as above
            task.decode = time.monotonic() - began
            self._answer(task, self._refusal(error))
            return False
        task.decoded = time.monotonic()
        task.decode = task.decoded - began
        return True

    def _key(self, task: Task) -> Hashable | None:
        try:
            return self._model.batch_key(task.data)
        except BaseException:  # noqa: BLE001 - what has no key goes alone
            return None

    def _predict(self, group: list[Task]) -> None:
        began = time.monotonic()
        for task in group:
            task.batch = began - task.decoded
        if len(group) == 1:
            self._predict_alone(group[0])
            return
        try:
            predictions = self._guard(self._model.predict_batch, [task.data for task in group])
            if len(predictions) != len(group):
                raise RuntimeError(f"{len(group)} requests gave {len(predictions)} predictions")
        except Late as error:
            # Once more, one by one, would take as long again for each.
            refusal = self._refusal(error)
            for task in group:
                self._answer(task, refusal)
            return
        except BaseException as error:  # noqa: BLE001 - as above
            self._again(group, error)
            return
        took = time.monotonic() - began
        for task, prediction in zip(group, predictions):
            task.predict = took
            task.batch_size = len(group)
            self._encode(task, prediction)

    def _again(self, group: list[Task], error: BaseException) -> None:
        if is_out_of_memory(error):
            # Not inside `except`: the traceback would hold the memory that the half needs.
            error.__traceback__ = None
            self._say(f"out of memory with {len(group)} requests at once; trying half as many")
            middle = len(group) // 2
            self._predict(group[:middle])
            self._flush()
            self._predict(group[middle:])
            return
        self._say(
            f"a batch of {len(group)} failed ({type(error).__name__}: {error}); computing its requests one by one"
        )
        for task in group:
            self._predict_alone(task)
            self._flush()

    def _predict_alone(self, task: Task) -> None:
        began = time.monotonic()
        try:
            prediction = self._guard(self._model.predict, task.data, task.request)
        except BaseException as error:  # noqa: BLE001 - as above
            task.predict = time.monotonic() - began
            self._answer(task, self._refusal(error))
            return
        task.predict = time.monotonic() - began
        task.batch_size = 1
        self._encode(task, prediction)

    def _encode(self, task: Task, prediction: Any) -> None:
        began = time.monotonic()
        try:
            outcome: Outcome = self._guard(self._model.encode, prediction, task.request)
        except BaseException as error:  # noqa: BLE001 - as above
            outcome = self._refusal(error)
        task.encode = time.monotonic() - began
        self._answer(task, outcome)

    def _refusal(self, error: BaseException) -> RequestError:
        return refusal(error, self._say)


def refusal(error: BaseException, say: Callable[[str], None]) -> RequestError:
    """What the client is told of a failure; the log gets the whole of it."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, Late):
        words = "the model took longer than a request may take"
        say(f"{words}; it was here:\n{place}" if (place := place_of(error)) else words)
        return RequestError(504, words)
    say(of_handler(error))
    if isinstance(error, SystemExit):
        return RequestError(500, "the handler called sys.exit")
    if is_out_of_memory(error):
        return RequestError(500, "the device ran out of memory for this request alone")
    return RequestError(500, f"the handler raised {type(error).__name__}; the log holds its traceback")
