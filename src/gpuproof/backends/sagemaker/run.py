"""A run on SageMaker: its state, output, results and end. All of it is read from AWS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gpuproof.agent.state import COMPLETED, FAILED
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable, SageMakerKind
from gpuproof.backends.base import Artifact, Event, Output, TransferProgress
from gpuproof.backends.display import DisplayedRun
from gpuproof.backends.hosts import require_host
from gpuproof.backends.record import RunRecord
from gpuproof.backends.remote import verdict as verdicts
from gpuproof.backends.remote.deliver import deliver_results, pull_results
from gpuproof.backends.remote.follow import Snapshot, follow
from gpuproof.backends.remote.logs import LogReader, Tail, read_tails
from gpuproof.backends.remote.results import Results, find_artifacts
from gpuproof.backends.remote.s3_layout import RunLayout
from gpuproof.backends.sagemaker.tracking.cost import bill_of, fleets_of, hourly_price
from gpuproof.backends.sagemaker.tracking.records import (
    LOG_GROUPS,
    TAG_BUCKET,
    TAG_REMOVED,
    TAG_RUN,
    TAG_VERDICT,
    capacity_error_code,
    record_of,
    response_time,
    verdict_tags,
)
from gpuproof.backends.sagemaker.tracking.result_locations import find_checkpoints, results_of
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError, RunNotFound, UsageError
from gpuproof.jobs.script_job import expanded

if TYPE_CHECKING:
    from gpuproof.explain import Explanation, Report
    from gpuproof.jobs.script_job import AnyJob

_REPORT_PAGES = 5
_FIRST_ATTEMPTS = 4


class SageMakerRun(DisplayedRun):
    """One training or processing job; implements `gpuproof.backends.base.Run`.

    Args:
        aws: the client.
        run_id: the job's name.
        kind: what kind of job it is.
        catalogue: for prices.
        instance_type: the type that it was submitted to, if known.
        clock: a monotonic clock, in seconds.
        sleep: waits for a number of seconds.
    """

    backend = "sagemaker"
    is_remote = True
    can_stop_at_once = False
    address_label = "console"

    def __init__(
        self,
        aws: Aws,
        run_id: str,
        kind: SageMakerKind,
        *,
        catalogue: Catalogue | None = None,
        instance_type: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.id = run_id
        self.kind: SageMakerKind = kind
        self.instance_type = instance_type
        self._aws = aws
        self._catalogue = catalogue or Catalogue.load()
        self._clock = clock
        self._sleep = sleep
        self._description: dict[str, Any] | None = None
        self._reader: LogReader | None = None
        self._reader_host: str | None = None
        self._verdict: dict[str, Any] | None = None
        self._final: RunRecord | None = None
        self._last_record: RunRecord | None = None

    @property
    def cli_name(self) -> str:
        """The arguments that name it on the command line: its id, with `--region` where that is needed."""
        return f"{self.id}{self._aws.region_flag}"

    @property
    def record(self) -> RunRecord:
        """Its current state; with its verdict, once it has ended.

        Raises:
            RunNotFound: the job does not exist, or was deleted.
        """
        if self._final is not None:
            return self._final
        record = self.describe().record
        if not record.has_ended:
            return record
        self._final = self._with_verdict(record)
        return self._final

    def known_record(self) -> RunRecord | None:
        """The record of the last request; None before the first."""
        return self._final or self._last_record

    @property
    def verdict(self) -> dict[str, Any] | None:
        """The verdict of its agents, merged over all hosts; `None` while it runs, or if there is none."""
        if not self.record.has_ended:
            return None
        return self._verdict

    @property
    def address(self) -> str:
        """The address of the job in the AWS console."""
        arn = self._last_description()[f"{self._word}JobArn"]
        partition, region = arn.split(":")[1], arn.split(":")[3]
        host = {"aws-cn": "console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com"}.get(
            partition, f"{region}.console.aws.amazon.com"
        )
        page = "jobs" if self.kind == "training" else "processing-jobs"
        return f"https://{host}/sagemaker/home?region={region}#/{page}/{self.id}"

    @property
    def lacked_capacity(self) -> bool:
        """Whether AWS had no capacity for its instance type, so that it never started."""
        return capacity_error_code(self.record) is not None

    @property
    def results(self) -> Results:
        """Where its results are on S3."""
        return results_of(self.kind, self._last_description())

    def describe(self) -> Snapshot:
        """Describe the job with one request.

        Raises:
            RunNotFound: the job does not exist, or was deleted.
        """
        description = self._request_description()
        self._description = description
        now = response_time(description)
        price = hourly_price(fleets_of(self.kind, description), self._catalogue, self._region, self.kind)
        bill = bill_of(self.kind, description, price.usd if price else None, now)
        record = record_of(self.kind, description, self._tags, self._catalogue, region=self._region, now=now)
        self._last_record = record
        live = {
            "seconds": max(0.0, now - (record.started or record.created)),
            "cost": bill.usd if bill else None,
            "cost_is_derived": bool(price and price.derived),
            "message": None if record.started else record.document.get("status_message"),
        }
        runs = bill is not None and not bill.final and price is not None
        return Snapshot(record, now, bill is not None, live, price.usd / 3600 if runs and price else None)

    def artifacts(self) -> list[Artifact]:
        """Its results on S3 so far, with sizes."""
        return find_artifacts(self._aws, self.results)

    def follow(self, *, offset: int = 0, live: bool = False, host: str | None = None) -> Iterator[Event]:
        """Yield its events until it has ended; the last event is its final record.

        Continues where an earlier call was interrupted, without reading the log again.

        Args:
            host: only the output of this host; of all hosts if None.
        """
        skip = 0
        if self._reader is None or self._reader_host != host or self._reader.bytes_read != offset:
            if host is not None:
                require_host(host, self.describe().record.hosts, self.id)
            self._reader, self._reader_host = (
                LogReader(self._aws, LOG_GROUPS[self.kind], self.id, host=host),
                host,
            )
            skip = offset
        events = follow(self, self._reader, live=live, clock=self._clock, sleep=self._sleep)
        for event in events:
            if isinstance(event, Output) and skip:
                skipped = min(skip, len(event.content))
                skip -= skipped
                if skipped < len(event.content):
                    yield Output(event.content[skipped:])
            elif isinstance(event, RunRecord) and event.has_ended:
                yield self.record
            else:
                yield event

    def write_log(self, sink: BinaryIO, *, since: float | None = None, host: str | None = None) -> int:
        """Write the output of its hosts so far; with several hosts, each line starts with the host's name.

        Args:
            since: leave out lines that were printed before this time.
            host: only the output of this host; of all hosts if None.
        """
        hosts = self.describe().record.hosts
        if host is not None:
            require_host(host, hosts, self.id)
        several = len(hosts) > 1 and host is None
        reader = LogReader(self._aws, LOG_GROUPS[self.kind], self.id, several=several, host=host, since=since)
        for content in reader.read():
            sink.write(content)
        return reader.bytes_read

    def wait(self) -> RunRecord:
        """Block until it has ended and return its final record."""
        for _ in follow(self, None, clock=self._clock, sleep=self._sleep):
            pass
        return self.record

    def stop(self, *, at_once: bool = False) -> None:  # noqa: ARG002 - SageMaker cannot stop faster
        """Request that SageMaker stops it: SIGTERM to the script and SIGKILL two minutes later.

        Raises:
            GPUproofError: the request failed, so that the job is still running and billed.
        """
        try:
            self._aws.stop_job(self.kind, self.id)
        except GPUproofError as error:
            raise error.replaced(
                f"{error.message} {self.id} was not stopped: it is still running, and billed.",
                f"{error.remedy or ''}\nThen: gpuproof stop {self.cli_name}".strip(),
            ) from error

    def pull(
        self, destination: Path, *, extract: bool = False, progress: TransferProgress | None = None
    ) -> list[Path]:
        """Download its archives or outputs, its verdict and the log of each host.

        Args:
            destination: created if needed.
            extract: unpack each archive into a folder of its name.
            progress: called during downloads.

        Returns:
            The files and folders that were created.

        Raises:
            UsageError: it has not ended.
            GPUproofError: an archive has members outside its folder, or the disk is full. No partial file is left.
        """
        self._check_ended()
        return pull_results(
            self._aws,
            LOG_GROUPS[self.kind],
            self.id,
            self.results,
            self.verdict,
            destination,
            extract=extract,
            progress=progress,
        )

    def deliver(self, job: AnyJob, *, progress: TransferProgress | None = None) -> list[Path]:
        """Download results to the local folders that the job names; see `deliver_results`.

        Raises:
            UsageError: it has not ended.
            GPUproofError: the disk is full; no partial file is left.
        """
        self._check_ended()
        return deliver_results(self._aws, self.id, self.results, expanded(job), progress=progress)

    def remove(self) -> str:
        """Delete its files in the bucket, except for its checkpoints. SageMaker keeps its record of the job.

        Raises:
            UsageError: it has not ended, or GPUproof did not create it.
        """
        self._check_ended(remedy=f"gpuproof stop {self.cli_name}")
        bucket = self._tags.get(TAG_BUCKET)
        if self._tags.get(TAG_RUN) != self.id or bucket is None:
            raise UsageError(f"{self.id} was not created by GPUproof: nothing was removed.")
        prefix = RunLayout(self.id).prefix
        keys = [item.key for item in self._aws.list_objects(bucket, prefix)]
        self._aws.delete_objects(bucket, keys)
        self._add_tags({TAG_REMOVED: "true"})
        done = (
            f"removed {len(keys)} objects below s3://{bucket}/{prefix}; SageMaker keeps its record of the job"
        )
        # Another run may continue from them, or is using them now.
        if (left := find_checkpoints(self._aws, self._last_description(), bucket)) is None:
            return done
        return f"{done}\nits checkpoints are kept, since other runs continue from them; to remove them: aws s3 rm --recursive {left}"

    def explanations(self) -> tuple[Explanation, ...]:
        """Known errors in its logs and in AWS's reason that explain its failure; empty if it did not fail."""
        return self.report().explanations if self.record.status == FAILED else ()

    def report(self, instance_type: str | None = None, region: str | None = None) -> Report:  # noqa: ARG002
        """The report on its logs and AWS's reason, whether it failed or not.

        Args:
            instance_type: assume that it ran on this type; the real one if None.
            region: ignored: the region is known.
        """
        from gpuproof.backends.sagemaker.tracking.diagnose import (
            explain_run_end,  # not needed to list or follow runs
        )

        return explain_run_end(
            self.kind, self.record, self._tails, self._catalogue, self._region, instance_type
        )

    @property
    def _word(self) -> str:
        return "Training" if self.kind == "training" else "Processing"

    @property
    def _region(self) -> str:
        return self._aws.region

    @cached_property
    def _tags(self) -> dict[str, str]:
        return self._aws.tags(self._last_description()[f"{self._word}JobArn"])

    @cached_property
    def _tails(self) -> dict[str, Tail]:
        return read_tails(self._aws, LOG_GROUPS[self.kind], self.id, pages=_REPORT_PAGES)

    def _last_description(self) -> dict[str, Any]:
        if self._description is None:
            self._description = self._request_description()
        return self._description

    def _request_description(self) -> dict[str, Any]:
        # A job that was created a moment ago may not be visible yet.
        attempts = 1 if self._description is not None else _FIRST_ATTEMPTS
        for number in range(attempts):
            description = self._aws.describe_job(self.kind, self.id)
            if description is not None:
                return description
            if number + 1 < attempts:
                self._sleep(0.5 * 2**number)
        if self._description is not None:
            raise RunNotFound(f"{self.id} no longer exists: the job was deleted.", remedy="gpuproof ps")
        raise RunNotFound(
            f"There is no {self.kind} job {self.id} in {self._region}.",
            remedy="`gpuproof ps --on sagemaker --region REGION` lists those of another region.",
        )

    def _check_ended(self, remedy: str | None = None) -> None:
        if not self.record.has_ended:
            raise UsageError(
                f"{self.id} is still running.", remedy=remedy or f"gpuproof wait {self.cli_name}"
            )

    def _with_verdict(self, record: RunRecord) -> RunRecord:
        reader = self._reader
        known = (
            {}
            if reader is None
            else {
                host: verdicts.AgentReport(one, messages=reader.agent_messages.get(host, ()))
                for host, one in reader.verdicts.items()
            }
        )
        reports, why = {}, "the job never started"
        if record.document["instances_started"] is not None:
            reports, why = verdicts.find_reports(
                self._aws, self.results, record.instance_count, known, lambda: self._tails
            )
        self._verdict = verdicts.merge_verdicts(reports, record.instance_count)
        if self._verdict is not None and TAG_RUN in self._tags and TAG_VERDICT not in self._tags:
            self._add_tags(verdict_tags(self._verdict))
        description = self._last_description()
        settled = record_of(
            self.kind,
            description,
            self._tags,
            self._catalogue,
            region=self._region,
            now=response_time(description),
            verdict=self._verdict,
            state=verdicts.merge_states(reports, completed=record.status == COMPLETED),
        )
        if self._verdict is not None or TAG_RUN not in self._tags:
            return settled
        note = f"no verdict on GPU use: {why}"
        document = {**settled.document, "notes": [*settled.notes, note]}
        return replace(settled, notes=(*settled.notes, note), document=document)

    def _add_tags(self, tags: Mapping[str, str]) -> None:
        """Add tags that `gpuproof ps` reads; without permission to do so, it shows the run as before."""
        with suppress(AwsRefused, AwsUnreachable):
            self._aws.add_tags(self._last_description()[f"{self._word}JobArn"], tags)
