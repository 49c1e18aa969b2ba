"""What was created for a batch transform job: stops the job, and deletes the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.aws.retry import poll_pauses
from gpuproof.backends.progress import SilentProgress
from gpuproof.backends.remote.execute import execute, undo_of
from gpuproof.backends.transaction import Remaining, Transaction, Undo
from gpuproof.errors import GPUproofError

ACTIVE = ("InProgress", "Stopping")
"""Statuses of a job that has not ended."""

STOP = "stop_transform_job"
"""The operation that stops a job."""

_STOP_S = 600.0


class CreatedForJob:
    """A job, its model and its files, as a transaction that has created them.

    Args:
        undo: the calls that undo the creation; the last one is made first.
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
        self.transaction = Transaction(_Notes(notify), describe=self._note, sleep=sleep)
        """Executes the steps, and undoes them."""
        self._aws = aws
        self._notify = notify
        self._sleep = sleep
        self._waits = True
        self._job: tuple[Undo, ...] = ()
        for call in undo:
            self.transaction.note(*self.undos(call))

    def undos(self, call: ApiCall) -> tuple[Undo, ...]:
        """What makes an undo; that of the job itself is its stop, and the wait for its end, which an interrupt ends."""
        if call.operation != STOP:
            return (undo_of(self._aws, call),)
        wait = Undo("wait for the job's end", self._wait_for_end, needed=True, interrupts=1)
        self._job = wait, Undo(call.what, lambda: self._request_stop(call), holds=True)
        return self._job

    def stop(self, *, wait: bool = True) -> list[GPUproofError]:
        """Stop the job if it runs, wait for its end, and delete the rest; returns what could not be done.

        A second Ctrl-C or SIGTERM does not wait for the end.
        """
        self._waits = wait
        return self._undo()

    def delete_rest(self) -> list[GPUproofError]:
        """Delete the model and the files; returns what could not be deleted. The job has ended."""
        self.transaction.forget(*self._job)
        return self._undo()

    def status(self) -> str:
        """SageMaker's status of the job; empty if it does not exist."""
        return (self._aws.transform_job(self.name) or {}).get("TransformJobStatus", "")

    def _undo(self) -> list[GPUproofError]:
        remaining, interrupt = self.transaction.undo()
        self.interrupted = interrupt is not None
        return [
            left.error.replaced(self._message(left), left.error.remedy)
            for left in remaining
            if isinstance(left.error, GPUproofError)
        ]

    def _message(self, left: Remaining) -> str:
        if left.undo.holds:
            return f"The job {self.name} could not be stopped: {left.why}"
        return f"not done: {left.undo.what}: {left.why}"

    def _note(self, left: Remaining) -> str:
        """The note about an interrupted wait; errors are returned instead."""
        return (
            f"{self.name} was told to stop; its end was not awaited" if left.reason == "interrupted" else ""
        )

    def _request_stop(self, stop: ApiCall) -> None:
        try:
            execute(self._aws, stop)
        except AwsRefused as refused:
            # It has ended, or was never created.
            if refused.code != "ValidationException" and not refused.is_missing:
                raise

    def _wait_for_end(self) -> None:
        if not self._waits or not self._is_active():
            return
        self._notify(f"stopping {self.name}; Ctrl-C does not wait for its end")
        for pause in poll_pauses(_STOP_S):
            if not self._is_active():
                return
            self._sleep(pause)

    def _is_active(self) -> bool:
        try:
            return self.status() in ACTIVE
        except (AwsRefused, AwsUnreachable):
            return False  # it cannot be followed


class _Notes(SilentProgress):
    """Passes on notes alone."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify

    def report(self, label: str, text: str) -> None:
        del label
        self._notify(text)
