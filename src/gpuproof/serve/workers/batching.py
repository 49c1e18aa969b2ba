"""Computes requests in batches: decodes each request, predicts compatible ones together, encodes each response.

A bad request does not fail the others of its batch: the requests of a failed batch are computed again one by one, and a
batch that does not fit into memory is split in half.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from typing import Any, Callable, Protocol, Union

from gpuproof.serve.errors import RequestError
from gpuproof.serve.interface import Model, Request, Response
from gpuproof.serve.model.tracebacks import format_handler_traceback, interrupted_at
from gpuproof.serve.model.user_errors import is_out_of_host_memory, is_out_of_memory

Outcome = Union[Response, RequestError]


class HandlerTimeout(BaseException):
    """Raised inside a user's function that exceeds the timeout.

    Not an `Exception`, so that `except Exception` in a handler does not catch it.
    """


class Task:
    """A request in a worker. Times are in seconds; `taken` and `decoded` are on `time.monotonic`'s clock."""

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


class CallUserCode(Protocol):
    """Calls a user's function."""

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any: ...


def compute(
    model: Model,
    tasks: Sequence[Task],
    call_user_code: CallUserCode,
    respond: Callable[[Task, Outcome], None],
    flush: Callable[[], None],
    log: Callable[[str], None],
) -> None:
    """Compute the response of every task.

    Args:
        respond: called with each task and its outcome, in any order.
        flush: called when no response follows immediately.
    """
    _BatchRun(model, call_user_code, respond, flush, log).run(tasks)


class _BatchRun:
    def __init__(
        self,
        model: Model,
        call_user_code: CallUserCode,
        respond: Callable[[Task, Outcome], None],
        flush: Callable[[], None],
        log: Callable[[str], None],
    ) -> None:
        self._model = model
        self._call_user_code = call_user_code
        self._respond = respond
        self._flush = flush
        self._log = log

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
            outcome: Outcome = self._call_user_code(self._model.transform, task.request)
        except BaseException as error:  # noqa: BLE001 - `sys.exit` in a handler fails only the request
            outcome = self._to_request_error(error)
        task.predict = time.monotonic() - began
        task.batch_size = 1
        self._respond(task, outcome)

    def _groups(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """Decode the tasks and group them into batches, in order of arrival. Responds to those that cannot be decoded."""
        groups: list[list[Task]] = []
        open_groups: dict[Hashable, list[Task]] = {}
        max_batch = self._model.batch.max_batch_size
        for task in tasks:
            if not self._decode(task):
                continue
            key = self._batch_key(task) if self._model.batch.enabled and len(tasks) > 1 else None
            group = None if key is None else open_groups.get(key)
            if group is not None and len(group) < max_batch:
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
            task.data = self._call_user_code(self._model.decode, task.request)
        except BaseException as error:  # noqa: BLE001 - as above
            task.decode = time.monotonic() - began
            self._respond(task, self._to_request_error(error))
            return False
        task.decoded = time.monotonic()
        task.decode = task.decoded - began
        return True

    def _batch_key(self, task: Task) -> Hashable | None:
        try:
            return self._model.batch_key(task.data)
        except BaseException:  # noqa: BLE001 - data without a key is computed alone
            return None

    def _predict(self, group: list[Task]) -> None:
        began = time.monotonic()
        for task in group:
            task.batch = began - task.decoded
        if len(group) == 1:
            self._predict_single(group[0])
            return
        try:
            predictions = self._call_user_code(self._model.predict_batch, [task.data for task in group])
            if len(predictions) != len(group):
                raise RuntimeError(f"{len(predictions)} predictions were returned for {len(group)} requests")
        except HandlerTimeout as error:
            # Computing them one by one would take as long again for each.
            to_request_error = self._to_request_error(error)
            for task in group:
                self._respond(task, to_request_error)
            return
        except BaseException as error:  # noqa: BLE001 - as above
            self._retry(group, error)
            return
        took = time.monotonic() - began
        for task, prediction in zip(group, predictions):
            task.predict = took
            task.batch_size = len(group)
            self._encode(task, prediction)

    def _retry(self, group: list[Task], error: BaseException) -> None:
        if is_out_of_memory(error):
            # The traceback keeps references to the memory that the halves need.
            error.__traceback__ = None
            self._log(f"out of memory with a batch of {len(group)} requests; splitting it in half")
            middle = len(group) // 2
            self._predict(group[:middle])
            self._flush()
            self._predict(group[middle:])
            return
        self._log(
            f"a batch of {len(group)} failed ({type(error).__name__}: {error}); computing its requests one by one"
        )
        for task in group:
            self._predict_single(task)
            self._flush()

    def _predict_single(self, task: Task) -> None:
        began = time.monotonic()
        try:
            prediction = self._call_user_code(self._model.predict, task.data, task.request)
        except BaseException as error:  # noqa: BLE001 - as above
            task.predict = time.monotonic() - began
            self._respond(task, self._to_request_error(error))
            return
        task.predict = time.monotonic() - began
        task.batch_size = 1
        self._encode(task, prediction)

    def _encode(self, task: Task, prediction: Any) -> None:
        began = time.monotonic()
        try:
            outcome: Outcome = self._call_user_code(self._model.encode, prediction, task.request)
        except BaseException as error:  # noqa: BLE001 - as above
            outcome = self._to_request_error(error)
        task.encode = time.monotonic() - began
        self._respond(task, outcome)

    def _to_request_error(self, error: BaseException) -> RequestError:
        return to_request_error(error, self._log)


def to_request_error(error: BaseException, log: Callable[[str], None]) -> RequestError:
    """The error that the client receives for a failure in user code. Logs the details."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, HandlerTimeout):
        text = "the model exceeded the timeout"
        log(f"{text}; it was interrupted at:\n{place}" if (place := interrupted_at(error)) else text)
        return RequestError(504, text)
    log(format_handler_traceback(error))
    if isinstance(error, SystemExit):
        return RequestError(500, "the handler called sys.exit")
    if is_out_of_memory(error):
        if is_out_of_host_memory(error):
            return RequestError(500, "the server ran out of memory (RAM) for this single request")
        return RequestError(500, "the device ran out of memory for this single request")
    return RequestError(
        500, f"the handler raised {type(error).__name__}; see the traceback in the server's log"
    )
