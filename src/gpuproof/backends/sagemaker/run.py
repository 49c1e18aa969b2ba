"""A run on SageMaker as an object: look at it, follow it, stop it, take its results. AWS alone knows it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gpuproof.agent.state import COMPLETED, FAILED
from gpuproof.backends.aws import Aws, AwsRefused, SageMakerKind
from gpuproof.backends.base import SAGEMAKER, Artifact, Event, Output, Progress
from gpuproof.backends.record import RunRecord
from gpuproof.backends.sagemaker.planning.resume import checkpoints_left
from gpuproof.backends.sagemaker.s3_layout import RunLayout
from gpuproof.backends.sagemaker.tracking import verdict as verdicts
from gpuproof.backends.sagemaker.tracking.cost import bill_of, fleets_of, hourly_price
from gpuproof.backends.sagemaker.tracking.follow import Look, follow
from gpuproof.backends.sagemaker.tracking.logs import LogReader, Tail, read_tails
from gpuproof.backends.sagemaker.tracking.records import TAG_BUCKET, TAG_REMOVED, TAG_RUN, record_of
from gpuproof.backends.sagemaker.tracking.results import (
    Downloads,
    Results,
    find_artifacts,
    results_of,
    said_as_gpuproof_error,
    write_whole,
)
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError, RunNotFound, UsageError

if TYPE_CHECKING:
    from gpuproof.explain import Explanation, Report

_EXPLAINED_PAGES = 5
_FIRST_LOOKS = 4


class SageMakerRun:
    """One training or processing job; obeys `gpuproof.backends.base.Run`.

    Args:
        aws: the client.
        run_id: the job's name.
        kind: what kind of job it is.
        catalogue: for prices.
        clock: seconds, from any beginning.
        sleep: waits that many seconds.
    """

    place = SAGEMAKER
    can_stop_at_once = False

    def __init__(
        self,
        aws: Aws,
        run_id: str,
        kind: SageMakerKind,
        *,
        catalogue: Catalogue | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.id = run_id
        self.kind: SageMakerKind = kind
        self._aws = aws
        self._catalogue = catalogue or Catalogue.load()
        self._clock = clock
        self._sleep = sleep
        self._description: dict[str, Any] | None = None
        self._reader: LogReader | None = None
        self._verdict: dict[str, Any] | None = None
        self._final: RunRecord | None = None

    @property
    def typed(self) -> str:
        """What to type for it on the command line: its id, and its region where that has to be said."""
        return f"{self.id}{self._aws.region_flag}"

    @property
    def record(self) -> RunRecord:
        """What is known of it now; with its verdict, once it has ended.

        Raises:
            RunNotFound: there is no such job, or not any more.
        """
        if self._final is not None:
            return self._final
        record = self.look().record
        if not record.has_ended:
            return record
        self._final = self._with_verdict(record)
        return self._final

    @property
    def verdict(self) -> dict[str, Any] | None:
        """The agent's verdict, the worst of all hosts; `None` while it runs, and where there is none."""
        if not self.record.has_ended:
            return None
        return self._verdict

    @property
    def where(self) -> str:
        """The job in AWS's console."""
        arn = self._described()[f"{self._word}JobArn"]
        partition, region = arn.split(":")[1], arn.split(":")[3]
        host = {"aws-cn": "console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com"}.get(
            partition, f"{region}.console.aws.amazon.com"
        )
        page = "jobs" if self.kind == "training" else "processing-jobs"
        return f"https://{host}/sagemaker/home?region={region}#/{page}/{self.id}"

    @property
    def results(self) -> Results:
        """Where its results lie on S3."""
        return results_of(self.kind, self._described())

    def look(self) -> Look:
        """Ask SageMaker for it, once.

        Raises:
            RunNotFound: there is no such job, or not any more.
        """
        description = self._describe()
        self._description = description
        now = self._aws_time(description)
        price = hourly_price(fleets_of(self.kind, description), self._catalogue, self._region, self.kind)
        bill = bill_of(self.kind, description, price, now)
        record = record_of(self.kind, description, self._tags, self._catalogue, region=self._region, now=now)
        live = {
            "seconds": max(0.0, now - (record.started or record.created)),
            "cost": bill.usd if bill else None,
            "message": None if record.started else record.document.get("status_message"),
        }
        runs = bill is not None and not bill.final and price is not None
        return Look(record, now, bill is not None, live, price / 3600 if runs and price else None)

    def artifacts(self) -> list[Artifact]:
        """What it left on S3 so far, with sizes."""
        return find_artifacts(self._aws, self.results)

    def follow(self, *, offset: int = 0, live: bool = False) -> Iterator[Event]:
        """Everything that it says until it has ended; the last event is its final record.

        Following goes on where an earlier one was interrupted, without reading the log again.
        """
        skip = 0
        if self._reader is None or self._reader.given != offset:
            self._reader = LogReader(self._aws, self.kind, self.id)
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

    def write_log(self, sink: BinaryIO) -> int:
        """Write everything that its hosts printed so far; with several, each line begins with its host."""
        look = self.look()
        reader = LogReader(self._aws, self.kind, self.id, several=look.record.instance_count > 1)
        for content in reader.read():
            sink.write(content)
        return reader.given

    def wait(self) -> RunRecord:
        """Return when it has ended."""
        for _ in follow(self, None, clock=self._clock, sleep=self._sleep):
            pass
        return self.record

    def stop(self, *, at_once: bool = False) -> None:  # noqa: ARG002 - SageMaker hurries for nobody
        """Ask SageMaker to stop it: SIGTERM to the script and, two minutes later, SIGKILL.

        Raises:
            GPUproofError: AWS did not; the message says that it goes on and costs.
        """
        try:
            self._aws.stop_job(self.kind, self.id)
        except GPUproofError as error:
            error.message = f"{error.message} {self.id} was not stopped: it goes on, and costs."
            error.args = (error.message,)
            error.remedy = f"{error.remedy or ''}\nThen: gpuproof stop {self.typed}".strip()
            raise

    def pull(
        self, destination: Path, *, extract: bool = False, progress: Progress | None = None
    ) -> list[Path]:
        """Bring its archives or outputs, its verdict and each host's log to this machine.

        Args:
            destination: made if need be.
            extract: unpack the archives, each into a folder of its name.
            progress: told how it goes.

        Returns:
            What was made there.

        Raises:
            UsageError: it has not ended.
            GPUproofError: an archive has members that would land outside its folder, or the disk is full. No half file
                is left.
        """
        self._refuse_running()
        results = self.results
        location = str(results.archives or next(iter(results.outputs.values()), "S3"))
        with said_as_gpuproof_error(destination, location):
            destination.mkdir(parents=True, exist_ok=True)
            return list(self._pull(destination, extract, Downloads(self._aws, progress)))

    def deliver(
        self,
        output: Path | None = None,
        outputs: Mapping[str, Path] | None = None,
        *,
        progress: Progress | None = None,
    ) -> list[Path]:
        """Bring results into folders that the job names on this machine, as a run on this machine leaves them there.

        Args:
            output: gets `RUN/output/model.tar.gz` and `RUN/output/output.tar.gz` of a training job.
            outputs: gets a processing job's outputs, by their names.

        Raises:
            UsageError: it has not ended.
            GPUproofError: the disk is full; no half file is left.
        """
        self._refuse_running()
        downloads, made = Downloads(self._aws, progress), list[Path]()
        results = self.results
        if output is not None and results.archives is not None:
            with said_as_gpuproof_error(output, str(results.archives)):
                made += downloads.archives(results.archives, output / self.id / "output")
        for name, folder in (outputs or {}).items():
            if (prefix := results.outputs.get(name)) is not None:
                with said_as_gpuproof_error(folder, str(prefix)):
                    made += [one for one in [downloads.tree(prefix, folder, name)] if one]
        return made

    def remove(self) -> str:
        """Delete what it alone keeps in the bucket; its checkpoints, and SageMaker's own record of it, stay.

        Raises:
            UsageError: it still runs, or GPUproof did not make it.
        """
        self._refuse_running(remedy=f"gpuproof stop {self.typed}")
        bucket = self._tags.get(TAG_BUCKET)
        if self._tags.get(TAG_RUN) != self.id or bucket is None:
            raise UsageError(f"{self.id} was not made by GPUproof: nothing of it was removed.")
        prefix = RunLayout(self.id).prefix
        keys = [item.key for item in self._aws.list_objects(bucket, prefix)]
        self._aws.delete_objects(bucket, keys)
        self._mark_removed()
        done = (
            f"removed {len(keys)} objects below s3://{bucket}/{prefix}; SageMaker keeps its record of the job"
        )
        # Another run may go on from them, or be at it now.
        if (left := checkpoints_left(self._aws, self._described(), bucket)) is None:
            return done
        return f"{done}\nits checkpoints stay, for other runs go on from them: aws s3 rm --recursive {left}"

    def explanations(self) -> tuple[Explanation, ...]:
        """What explains its failure, by its logs and by AWS's reason; nothing for a job that did not fail."""
        return self.report().explanations if self.record.status == FAILED else ()

    def report(self, instance_type: str | None = None, region: str | None = None) -> Report:  # noqa: ARG002
        """What its logs say, and AWS's reason, whether it failed or not.

        Args:
            instance_type: what to take it to have run on; what it did if None.
            region: changes nothing: it is known.
        """
        from gpuproof.backends.sagemaker.tracking.diagnose import explain  # only who asks why needs any of it

        return explain(self.kind, self.record, self._tails, self._catalogue, self._region, instance_type)

    @property
    def _word(self) -> str:
        return "Training" if self.kind == "training" else "Processing"

    @property
    def _region(self) -> str:
        return self._aws.region

    @cached_property
    def _tags(self) -> dict[str, str]:
        return self._aws.tags(self._described()[f"{self._word}JobArn"])

    @cached_property
    def _tails(self) -> dict[str, Tail]:
        return read_tails(self._aws, self.kind, self.id, pages=_EXPLAINED_PAGES)

    def _described(self) -> dict[str, Any]:
        if self._description is None:
            self._description = self._describe()
        return self._description

    def _describe(self) -> dict[str, Any]:
        # A job that was made a moment ago may not be there yet for everyone who asks.
        looks = 1 if self._description is not None else _FIRST_LOOKS
        for number in range(looks):
            description = self._aws.describe_job(self.kind, self.id)
            if description is not None:
                return description
            if number + 1 < looks:
                self._sleep(0.5 * 2**number)
        if self._description is not None:
            raise RunNotFound(
                f"{self.id} is not there any more: somebody deleted the job.", remedy="gpuproof ps"
            )
        raise RunNotFound(
            f"SageMaker has no {self.kind} job {self.id} in {self._region}.",
            remedy="`gpuproof ps --on sagemaker --region REGION` lists those of another region.",
        )

    def _aws_time(self, description: Mapping[str, Any]) -> float:
        """The time as AWS's answer tells it: this machine's clock may be wrong."""
        date = description.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        try:
            return parsedate_to_datetime(date).timestamp()
        except (TypeError, ValueError):
            return time.time()

    def _refuse_running(self, remedy: str | None = None) -> None:
        if not self.record.has_ended:
            raise UsageError(f"{self.id} still runs.", remedy=remedy or f"gpuproof wait {self.typed}")

    def _with_verdict(self, record: RunRecord) -> RunRecord:
        reader = self._reader
        told = (
            {}
            if reader is None
            else {
                host: verdicts.Report(one, words=reader.words.get(host, ()))
                for host, one in reader.verdicts.items()
            }
        )
        reports, why = {}, "it never started"
        if record.document["instances_started"] is not None:
            reports, why = verdicts.find_reports(
                self._aws, self.results, record.instance_count, told, lambda: self._tails
            )
        self._verdict = verdicts.of_all_hosts(
            {host: one.verdict for host, one in reports.items() if one.verdict is not None}
        )
        description = self._described()
        settled = record_of(
            self.kind,
            description,
            self._tags,
            self._catalogue,
            region=self._region,
            now=self._aws_time(description),
            verdict=self._verdict,
            state=verdicts.state_of_all_hosts(reports, completed=record.status == COMPLETED),
        )
        if self._verdict is not None or TAG_RUN not in self._tags:
            return settled
        note = f"there is no verdict on GPU use: {why}"
        document = {**settled.document, "notes": [*settled.notes, note]}
        return replace(settled, notes=(*settled.notes, note), document=document)

    def _pull(self, destination: Path, extract: bool, downloads: Downloads) -> Iterator[Path]:
        results = self.results
        if results.archives is not None:
            yield from downloads.archives(results.archives, destination, extract=extract)
        for name, prefix in results.outputs.items():
            if (made := downloads.tree(prefix, destination / name, name)) is not None:
                yield made
        if (verdict := self.verdict) is not None:
            yield write_whole(destination / "verdict.json", [json.dumps(verdict, indent=1).encode(), b"\n"])
        hosts = LogReader(self._aws, self.kind, self.id)
        for host in hosts.find_hosts():
            reader = LogReader(self._aws, self.kind, self.id, host=host)
            yield write_whole(destination / f"{host}.log", reader.read())

    def _mark_removed(self) -> None:
        """So that `gpuproof ps` leaves it out; where that is not allowed, it does not."""
        try:
            self._aws.add_tags(self._described()[f"{self._word}JobArn"], {TAG_REMOVED: "true"})
        except AwsRefused:
            return
