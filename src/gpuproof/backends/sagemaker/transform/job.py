"""Executes a plan: creates the job, follows it, and deletes what was created for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import CONNECTIONS, Aws, AwsRefused
from gpuproof.backends.aws.retry import poll_pauses
from gpuproof.backends.aws.services.s3_transfer import PART, ByteCounter, run_in_threads
from gpuproof.backends.remote.execute import step_of
from gpuproof.backends.sagemaker.transform.created import ACTIVE, CreatedForJob
from gpuproof.backends.sagemaker.transform.plan import TransformPlan
from gpuproof.errors import GPUproofError

LOG_GROUP = "/aws/sagemaker/TransformJobs"


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


class TransformExecution:
    """One batch transform job: a context that stops it, and deletes what was created for it, after an error or an interrupt.

    Args:
        sleep: waits for a number of seconds.
        notify: called with a message about what happens, or an error that does not end the command.
        transfer: called with what is uploaded, how many bytes of it are, and all its bytes.
    """

    def __init__(
        self,
        aws: Aws,
        plan: TransformPlan,
        sleep: Callable[[float], None] = time.sleep,
        notify: Callable[[str], None] = print,
        transfer: Callable[[str, int, int], None] | None = None,
    ) -> None:
        self._aws = aws
        self._plan = plan
        self._sleep = sleep
        self._notify = notify
        self._transfer = transfer
        self._created = CreatedForJob(aws, plan.name, notify=notify, sleep=sleep)
        self._tokens: dict[str, str | None] = {}

    def __enter__(self) -> Self:
        """Begin; nothing is created yet."""
        return self

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        """After an error or an interrupt, wherever it came: stop the job, and delete what was created for it.

        Raises:
            KeyboardInterrupt: an interrupt came after an error.
        """
        if error is None:
            return
        self._report(self._created.stop())
        if self._created.interrupted and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt from error

    def create(self) -> None:
        """Execute the plan.

        Raises:
            GPUproofError: a call fails.
        """
        for is_upload, group in groupby(self._plan.calls, key=_upload):
            calls = list(group)
            if is_upload:
                self._upload_files(is_upload, calls)
                continue
            for call in calls:
                undo = () if call.undo is None else self._created.undos(call.undo)
                self._created.transaction.execute(replace(step_of(self._aws, call), undo=undo))

    def _upload_files(self, what: str, calls: Sequence[ApiCall]) -> None:
        """Upload files, several small ones at the same time."""
        self._notify(what)
        for call in calls:
            if call.undo is not None:
                self._created.transaction.note(*self._created.undos(call.undo))
        sizes = {call.request["Key"]: Path(call.request["Filename"]).stat().st_size for call in calls}
        counter = ByteCounter(sum(sizes.values()), partial(self._transfer, what) if self._transfer else None)

        def upload(call: ApiCall) -> None:
            request = call.request
            path = Path(request["Filename"])
            self._aws.upload_file(request["Bucket"], request["Key"], path, progress=counter.add)

        small = [call for call in calls if sizes[call.request["Key"]] <= PART]
        run_in_threads(small, upload, counter, CONNECTIONS)
        # Multipart uploads, from this thread: an interrupt then deletes the uploaded parts.
        for call in calls:
            if call not in small:
                upload(call)

    def follow(self, on_line: Callable[[str], None], on_status: Callable[[str], None]) -> TransformEnd:
        """Wait for the end of the job, and delete what was created for it.

        Args:
            on_line: called with each line of the logs.
            on_status: called when the status changes.
        """
        document = self._wait(on_line, on_status)
        self._report(self._created.delete_rest())
        if self._created.interrupted:
            raise KeyboardInterrupt
        return self._end(document)

    def _report(self, problems: Sequence[GPUproofError]) -> None:
        for problem in problems:
            self._notify(problem.message)

    def _wait(self, on_line: Callable[[str], None], on_status: Callable[[str], None]) -> dict[str, Any]:
        shown, pauses = "", poll_pauses()
        while True:
            document = self._describe()
            status = document["TransformJobStatus"]
            started = "TransformStartTime" in document
            now = status if status != "InProgress" else ("Transforming" if started else "Starting")
            if now != shown:
                on_status(now)
                shown = now
            self._print_logs(on_line)
            if status not in ACTIVE:
                return document
            self._sleep(next(pauses))

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

    def _end(self, document: dict[str, Any]) -> TransformEnd:
        start: datetime | None = document.get("TransformStartTime")
        end: datetime | None = document.get("TransformEndTime")
        seconds = (end - start).total_seconds() if start and end else None
        price = self._plan.price
        cost = None
        if seconds is not None and price is not None:
            cost = price.usd_per_hour * self._plan.job.instance_count * seconds / 3600
        return TransformEnd(document["TransformJobStatus"], document.get("FailureReason", ""), seconds, cost)


def _upload(call: ApiCall) -> str:
    """What a call uploads; empty if it uploads nothing."""
    return call.what if call.operation == "upload_file" else ""
