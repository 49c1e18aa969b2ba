"""What was created for a batch transform job: stops the job, and deletes the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.aws.services.endpoints import is_missing
from gpuproof.backends.interrupts import DeferredInterrupt
from gpuproof.backends.remote.execute import execute
from gpuproof.errors import GPUproofError

ACTIVE = ("InProgress", "Stopping")
"""Statuses of a job that has not ended."""

_POLL_S, _STOP_S = 0.5, 600.0


class CreatedForJob:
    """A job, its model and its files, as the calls that undo their creation.

    Args:
        aws: the client.
        name: the job.
        undo: the calls; the last one is made first.
        notify: called with a message about what happens.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        aws: Aws,
        name: str,
        undo: Iterable[ApiCall] = (),
        notify: Callable[[str], None] = print,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = name
        """The job."""
        self.interrupted = False
        """Whether Ctrl-C or SIGTERM ended the wait for the job's end."""
        self._aws = aws
        self._undo = list(undo)
        self._notify = notify
        self._sleep = sleep

    def add(self, undo: ApiCall | None) -> None:
        """Note what undoes a call, before the call is made: one whose response is lost may have succeeded."""
        if undo is not None:
            self._undo.append(undo)

    def discard(self, undo: ApiCall | None) -> None:
        """Forget what undoes a call that AWS rejected."""
        if undo in self._undo:
            self._undo.remove(undo)

    def stop(self, *, wait: bool = True) -> list[GPUproofError]:
        """Stop the job if it runs, wait for its end, and delete the rest; returns what could not be done.

        A second Ctrl-C or SIGTERM does not wait for the end.
        """
        problems: list[GPUproofError] = []
        stop = next((call for call in self._undo if call.operation == "stop_transform_job"), None)
        if stop is not None:
            self._undo.remove(stop)
            try:
                with DeferredInterrupt():
                    problems += self._request_stop(stop)
                if wait and not problems and self._is_active():
                    self._notify(f"stopping {self.name}; Ctrl-C does not wait for its end")
                    self._wait_for_end()
            except KeyboardInterrupt:
                self.interrupted = True
                self._notify(f"{self.name} was told to stop; its end was not awaited")
        with DeferredInterrupt():
            return [*problems, *self.delete_rest()]

    def delete_rest(self) -> list[GPUproofError]:
        """Delete the model and the files, the model first; returns what could not be deleted. The job has ended, or is stopping."""
        problems: list[GPUproofError] = []
        while self._undo:
            call = self._undo.pop()
            if call.operation == "stop_transform_job":
                continue
            try:
                execute(self._aws, call)
            except (AwsRefused, AwsUnreachable) as error:
                if not (isinstance(error, AwsRefused) and is_missing(error)):
                    problems.append(error.replaced(f"not done: {call.what}: {error.message}", error.remedy))
        return problems

    def status(self) -> str:
        """SageMaker's status of the job; empty if it does not exist."""
        return (self._aws.transform_job(self.name) or {}).get("TransformJobStatus", "")

    def _request_stop(self, stop: ApiCall) -> list[GPUproofError]:
        try:
            execute(self._aws, stop)
        except (AwsRefused, AwsUnreachable) as error:
            # It has ended, or was never created.
            if isinstance(error, AwsRefused) and (error.code == "ValidationException" or is_missing(error)):
                return []
            message = f"The job {self.name} could not be stopped: {error.message}"
            return [error.replaced(message, error.remedy)]
        return []

    def _is_active(self) -> bool:
        try:
            return self.status() in ACTIVE
        except (AwsRefused, AwsUnreachable):
            return False  # it cannot be followed

    def _wait_for_end(self) -> None:
        waited = 0.0
        while waited < _STOP_S and self._is_active():
            self._sleep(_POLL_S)
            waited += _POLL_S
