"""A run on SageMaker: its state, output, results and end. All of it is read from AWS."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpuproof.agent.state import COMPLETED
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable, SageMakerKind
from gpuproof.backends.events import GpuReadings
from gpuproof.backends.hosts import host_names
from gpuproof.backends.record import RunRecord
from gpuproof.backends.remote.follow import Snapshot
from gpuproof.backends.remote.results import agent_reports
from gpuproof.backends.remote.results.objects import Results
from gpuproof.backends.remote.run import RemoteRun
from gpuproof.backends.remote.s3_layout import RunLayout
from gpuproof.backends.sagemaker.tracking.cost import bill_of, fleets_of, hourly_price
from gpuproof.backends.sagemaker.tracking.live_metrics import read_live_metrics
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
from gpuproof.backends.sagemaker.tracking.submitted import job_facts
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError, RunNotFound, UsageError

if TYPE_CHECKING:
    from gpuproof.explain import Report

_FIRST_ATTEMPTS = 4


class SageMakerRun(RemoteRun):
    """One training or processing job; implements `gpuproof.backends.base.Run`.

    Args:
        kind: what kind of job it is.
        instance_type: the type that it was submitted to, if known.
        clock: a monotonic clock, in seconds.
        sleep: waits for a number of seconds.
    """

    backend = "sagemaker"
    can_stop_at_once = False

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
        super().__init__(
            aws, run_id, catalogue=catalogue, instance_type=instance_type, clock=clock, sleep=sleep
        )
        self.kind: SageMakerKind = kind
        self._description: dict[str, Any] | None = None

    @property
    def log_group(self) -> str:
        """The group of CloudWatch Logs with the output of its hosts."""
        return LOG_GROUPS[self.kind]

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

    def read_gpus(self) -> GpuReadings | None:
        """The values of CloudWatch; None if its instances have no GPU, or are of an unknown or of several types."""
        fleets = fleets_of(self.kind, self._last_description())
        known = self._catalogue.instance(fleets[0].instance_type) if len(fleets) == 1 else None
        if known is None or not known.gpu_count:
            return None
        return read_live_metrics(
            self._aws,
            self.kind,
            self.id,
            host_names(fleets[0].count),
            gpus=known.gpu_count,
            gpu_memory=known.gpu_memory,
            now=time.time(),
        )

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

    def report(self, instance_type: str | None = None, region: str | None = None) -> Report:  # noqa: ARG002
        """The report on its logs and AWS's reason, whether it failed or not.

        Args:
            instance_type: assume that it ran on this type; the real one if None.
        """
        from gpuproof.backends.remote.diagnose import explain_run_end  # not needed to list or follow runs

        record = self.record
        tags: Mapping[str, str] = record.document["tags"]
        return explain_run_end(
            record,
            self._tails,
            self._catalogue,
            self._region,
            instance_type,
            job_kind=self.kind,
            gpu_expected=bool(tags.get("gpuproof:expects")) if TAG_RUN in tags else None,
            job=job_facts(self._last_description(), is_ours=TAG_RUN in tags),
        )

    @property
    def _word(self) -> str:
        return "Training" if self.kind == "training" else "Processing"

    @cached_property
    def _tags(self) -> dict[str, str]:
        return self._aws.tags(self._last_description()[f"{self._word}JobArn"])

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

    def _with_verdict(self, record: RunRecord) -> RunRecord:
        reports, why = {}, "the job never started"
        if record.document["instances_started"] is not None:
            reports, why = agent_reports.find_reports(
                self._aws, self.results, record.instance_count, self._followed_reports(), lambda: self._tails
            )
        self._verdict = agent_reports.merge_verdicts(reports, record.instance_count)
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
            state=agent_reports.merge_states(reports, completed=record.status == COMPLETED),
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
