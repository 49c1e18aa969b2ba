"""Executes a plan: creates the job, follows it, and deletes what was created for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.aws.services.endpoints import is_missing
from gpuproof.backends.interrupts import DeferredInterrupt
from gpuproof.backends.remote.execute import execute
from gpuproof.backends.sagemaker.transform.plan import TransformPlan

LOG_GROUP = "/aws/sagemaker/TransformJobs"
_ACTIVE = ("InProgress", "Stopping")
_FIRST_POLL_S, _LONGEST_POLL_S = 0.5, 10.0
_STOP_S = 600.0


@dataclass(frozen=True)
class TransformEnd:
    """How a job ended.

    Args:
        status: `Completed`, `Failed` or `Stopped`.
        reason: SageMaker's FailureReason; empty if there is none.
        seconds: for which its instances are billed; None if they did not start.
        cost: in USD; None if the price is unknown.
    """

    status: str
    reason: str
    seconds: float | None
    cost: float | None


class TransformJob:
    """One batch transform job: a context that stops it, and deletes what was created for it, after an error or an interrupt.

    Args:
        aws: the client.
        plan: what to create.
        sleep: waits for a number of seconds.
        notify: called with a message about an error that does not end the command.
    """

    def __init__(
        self,
        aws: Aws,
        plan: TransformPlan,
        sleep: Callable[[float], None] = time.sleep,
        notify: Callable[[str], None] = print,
    ) -> None:
        self._aws = aws
        self._plan = plan
        self._sleep = sleep
        self._notify = notify
        self._undo: list[ApiCall] = []
        self._tokens: dict[str, str | None] = {}

    def __enter__(self) -> Self:
        """Begin; nothing is created yet."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """After an error or an interrupt, wherever it came: stop the job, and delete what was created for it."""
        if kind is not None:
            self.stop()

    def create(self) -> None:
        """Execute the plan.

        Raises:
            GPUproofError: a call fails.
        """
        for call in self._plan.calls:
            # Noted first: a call whose response is lost may have succeeded.
            if call.undo is not None:
                self._undo.append(call.undo)
            if call.operation == "upload_file":
                self._notify(call.what)
                request = call.request
                self._aws.upload_file(request["Bucket"], request["Key"], Path(request["Filename"]))
                continue
            with DeferredInterrupt():
                self._execute(call)

    def _execute(self, call: ApiCall) -> None:
        try:
            execute(self._aws, call)
        except AwsRefused as refused:
            if call.undo is not None and not refused.maybe_done:
                self._undo.remove(call.undo)
            if refused.code != "BucketAlreadyOwnedByYou":
                raise

    def follow(self, on_line: Callable[[str], None], on_status: Callable[[str], None]) -> TransformEnd:
        """Wait for the end of the job, and delete what was created for it.

        Args:
            on_line: called with each line of the logs.
            on_status: called when the status changes.
        """
        document = self._wait(on_line, on_status)
        self._delete_created()
        return self._end(document)

    def stop(self) -> None:
        """Stop the job if it runs, wait for its end, and delete what was created for it.

        A second Ctrl-C or SIGTERM does not wait for the end.
        """
        stop = next((call for call in self._undo if call.operation == "stop_transform_job"), None)
        if stop is not None:
            self._undo.remove(stop)
            try:
                with DeferredInterrupt():
                    stopping = self._request_stop(stop)
                if stopping:
                    self._notify(f"stopping {self._plan.name}; Ctrl-C does not wait for its end")
                    self._wait_for_end()
            except KeyboardInterrupt:
                self._notify(f"{self._plan.name} was told to stop; its end was not awaited")
        with DeferredInterrupt():
            self._delete_created()

    def _wait(self, on_line: Callable[[str], None], on_status: Callable[[str], None]) -> dict[str, Any]:
        shown, pause = "", _FIRST_POLL_S
        while True:
            document = self._describe()
            status = document["TransformJobStatus"]
            started = "TransformStartTime" in document
            now = status if status != "InProgress" else ("Transforming" if started else "Starting")
            if now != shown:
                on_status(now)
                shown = now
            self._print_logs(on_line)
            if status not in _ACTIVE:
                return document
            self._sleep(pause)
            pause = min(_LONGEST_POLL_S, pause * 1.3)

    def _describe(self) -> dict[str, Any]:
        return self._aws.call("sagemaker", "describe_transform_job", TransformJobName=self._plan.name)

    def _print_logs(self, on_line: Callable[[str], None]) -> None:
        """Print new lines; a user without permission to read logs still gets the job's status."""
        try:
            for stream in self._aws.log_streams(LOG_GROUP, f"{self._plan.name}/"):
                while True:
                    token = self._tokens.get(stream.name)
                    events, following = self._aws.log_events(LOG_GROUP, stream.name, token)
                    for event in events:
                        on_line(event.message)
                    self._tokens[stream.name] = following
                    if following == token or not events:
                        break
        except AwsRefused as refused:
            if not refused.is_permission:
                raise

    def _request_stop(self, stop: ApiCall) -> bool:
        """Whether the job is stopping now; False if it has ended, was never created or cannot be stopped."""
        try:
            execute(self._aws, stop)
        except AwsRefused as refused:
            # It has ended, or was never created.
            if refused.code != "ValidationException" and not is_missing(refused):
                self._notify(f"The job {self._plan.name} could not be stopped: {refused.message}")
            return False
        except AwsUnreachable as error:
            self._notify(f"The job {self._plan.name} could not be stopped: {error.message}")
            return False
        return True

    def _wait_for_end(self) -> None:
        waited = 0.0
        try:
            while self._describe()["TransformJobStatus"] in _ACTIVE and waited < _STOP_S:
                self._sleep(_FIRST_POLL_S)
                waited += _FIRST_POLL_S
        except (AwsRefused, AwsUnreachable):
            return  # it cannot be followed

    def _delete_created(self) -> None:
        """Delete the model and its files, the model first."""
        while self._undo:
            call = self._undo.pop()
            if call.operation == "stop_transform_job":
                continue  # it has ended
            try:
                execute(self._aws, call)
            except (AwsRefused, AwsUnreachable) as error:
                if not (isinstance(error, AwsRefused) and is_missing(error)):
                    self._notify(f"not done: {call.what}: {error.message}")

    def _end(self, document: dict[str, Any]) -> TransformEnd:
        start: datetime | None = document.get("TransformStartTime")
        end: datetime | None = document.get("TransformEndTime")
        seconds = (end - start).total_seconds() if start and end else None
        price = self._plan.price
        cost = None
        if seconds is not None and price is not None:
            cost = price.usd_per_hour * self._plan.options.instance_count * seconds / 3600
        return TransformEnd(document["TransformJobStatus"], document.get("FailureReason", ""), seconds, cost)
