"""Finds and lists runs on SageMaker by their tags; no local state is needed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable, SageMakerKind
from gpuproof.backends.errors import AmbiguousRun
from gpuproof.backends.record import RunRecord
from gpuproof.backends.remote.run_id import created_after, is_run_id, stamp_in
from gpuproof.backends.sagemaker.run import SageMakerRun
from gpuproof.backends.sagemaker.tracking.records import (
    TAG_JOB,
    TAG_REMOVED,
    TAG_RUN,
    TAG_VERDICT,
    listed_record,
    name_in,
    record_of,
)
from gpuproof.catalogue import Catalogue
from gpuproof.errors import RunNotFound

KINDS: tuple[SageMakerKind, ...] = ("training", "processing")

_Key = tuple[SageMakerKind, str]
_Found = tuple[SageMakerKind, dict[str, Any]]

_JOB_NAME = re.compile(r"[A-Za-z0-9](?:-*[A-Za-z0-9]){0,62}")
_DETAILED = 10
"""Maximum number of runs to describe one by one: listings lack the times of running and of processing jobs."""
_UNREAD = 3
"""Maximum number of verdicts to read from S3 per listing: of runs that no command has looked at since they ended."""


class SageMakerRunStore:
    """The runs in one account and region; implements `gpuproof.backends.base.RunStore`.

    Args:
        make: creates the run objects; for tests.
    """

    backend = "sagemaker"
    notes: tuple[str, ...] = ()

    def __init__(self, aws: Aws, make: Callable[..., SageMakerRun] = SageMakerRun) -> None:
        self._aws = aws
        self._catalogue = Catalogue.load()
        self._make = make
        self._known: dict[str, SageMakerRun] = {}

    def records(self) -> Iterator[RunRecord]:
        """All runs that GPUproof created, newest first.

        Tags identify GPUproof's jobs, listings have their status, and a search has instance types and costs: a few
        requests for a hundred runs. Only the newest running jobs and processing jobs are described one by one, and only
        verdicts of runs that no command has looked at since they ended are read from S3, the newest first.
        """
        tagged = self._tagged()
        found: list[_Found] = []
        for kind in KINDS:
            found.extend(self._summaries(kind, {name for one, name in tagged if one == kind}))
        yield from self._detailed(found, tagged)

    def newest(self, count: int) -> tuple[list[RunRecord], int]:
        """The newest `count` runs and all that have not ended, newest first; and the number of runs left out."""
        tagged = self._tagged()
        newest = sorted(tagged, key=_age, reverse=True)[:count]
        found: list[_Found] = []
        for kind in KINDS:
            names = {name for one, name in newest if one == kind}
            found.extend(self._summaries(kind, names))
            older = {name for one, name in tagged if one == kind} - names
            if older:
                found.extend(self._unended(kind, older))
        return list(self._detailed(found, tagged)), len(tagged) - len(found)

    def find(self, name: str | None) -> RunRecord:
        """Look up a run; see `gpuproof.backends.base.RunStore.find`. A full name also finds jobs that GPUproof did not create.

        Raises:
            RunNotFound: no run, or more than one, matches.
        """
        if name is not None and is_run_id(name) and (found := self._exact(name)) is not None:
            return found
        tagged = self._tagged()
        if name is None:
            if not tagged:
                raise RunNotFound(
                    f"There are no runs on SageMaker in {self._aws.region}.",
                    remedy="`gpuproof run train.py --on sagemaker` starts one; use --region for another region.",
                )
            return self._run(*_newest(tagged)).record
        named = {key: tags for key, tags in tagged.items() if tags.get(TAG_JOB) == name}
        if named:
            return self._run(*_newest(named)).record
        near = sorted(key for key in tagged if key[1].startswith(name) or key[1].endswith(name))
        if len(near) > 1:
            listed = ", ".join(run_id for _, run_id in near[:5]) + (" …" if len(near) > 5 else "")
            raise AmbiguousRun(f"{name} matches {len(near)} runs: {listed}.", remedy="Type more of the id.")
        if near:
            return self._run(*near[0]).record
        if not is_run_id(name) and (found := self._exact(name)) is not None:
            return found
        raise RunNotFound(
            f"No run on SageMaker in {self._aws.region} matches {name}.",
            remedy="`gpuproof ps --on sagemaker` lists them; use --region for another region.",
        )

    def run(self, record: RunRecord) -> SageMakerRun:
        """The run of a record."""
        kind: SageMakerKind = "processing" if record.kind == "processing" else "training"
        return self._run(kind, record.id)

    def _run(self, kind: SageMakerKind, name: str) -> SageMakerRun:
        if name not in self._known:
            self._known[name] = self._make(self._aws, name, kind, catalogue=self._catalogue)
        return self._known[name]

    def _exact(self, name: str) -> RunRecord | None:
        """The job with exactly that name, also one that GPUproof did not create."""
        if not _JOB_NAME.fullmatch(name):
            return None
        for kind in KINDS:
            if self._aws.describe_job(kind, name) is not None:
                return self._run(kind, name).record
        return None

    def _tagged(self) -> dict[_Key, dict[str, str]]:
        """The tags of all runs, by kind and name."""
        found: dict[_Key, dict[str, str]] = {}
        for arn, tags in self._aws.tagged(TAG_RUN):
            key = name_in(arn)
            if key is not None and TAG_REMOVED not in tags:
                found[key] = tags
        return found

    def _summaries(self, kind: SageMakerKind, names: set[str]) -> Iterator[_Found]:
        """Entries of the listings for these jobs; other jobs of the account are skipped."""
        left = set(names)
        if not left:
            return
        for summary in self._aws.list_jobs(kind, created_after=created_after(left)):
            name = summary[_word(kind) + "JobName"]
            if name in left:
                left.discard(name)
                yield kind, summary
                if not left:
                    return

    def _unended(self, kind: SageMakerKind, names: set[str]) -> Iterator[_Found]:
        """Entries of the listings for those of these jobs that have not ended."""
        left = set(names)
        for status in ("InProgress", "Stopping"):
            for summary in self._aws.list_jobs(kind, status=status):
                name = summary[_word(kind) + "JobName"]
                # A job that began to stop between the two requests is in both.
                if name in left:
                    left.discard(name)
                    yield kind, summary

    def _detailed(self, found: list[_Found], tagged: Mapping[_Key, dict[str, str]]) -> Iterator[RunRecord]:
        """Records of listed jobs, newest first, completed by descriptions and a search."""
        found.sort(key=lambda one: one[1]["CreationTime"], reverse=True)
        details = self._details({one["TrainingJobName"]: one for kind, one in found if kind == "training"})
        left, unread = _DETAILED, _UNREAD
        for kind, summary in found:
            name = summary[_word(kind) + "JobName"]
            tags = tagged[kind, name]
            record = listed_record(kind, summary, tags, self._aws.region)
            if left > 0 and (not record.has_ended or kind == "processing"):
                left -= 1
                with contextlib.suppress(RunNotFound):
                    record = self._run(kind, name).describe().record
            elif (detail := details.get(name)) is not None and detail["TrainingJobStatus"] == record.status:
                now = datetime.now(UTC).timestamp()
                record = record_of(kind, detail, tags, self._catalogue, region=self._aws.region, now=now)
                if (
                    unread > 0
                    and record.has_ended
                    and TAG_VERDICT not in tags
                    and "TrainingStartTime" in detail
                ):
                    # Reading a verdict adds it to the tags, so that each is read once.
                    unread -= 1
                    with contextlib.suppress(RunNotFound):
                        record = self._run(kind, name).record
            yield record

    def _details(self, summaries: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Search results for these training jobs, by name; empty if the user may not search."""
        details: dict[str, dict[str, Any]] = {}
        if not summaries:
            return details
        earliest = min(summary["CreationTime"] for summary in summaries.values())
        with contextlib.suppress(AwsRefused, AwsUnreachable):
            # The search also finds removed runs, and may lack the newest.
            for job in self._aws.search_training_jobs(TAG_RUN):
                if job["CreationTime"] < earliest:
                    break
                if job["TrainingJobName"] in summaries:
                    details[job["TrainingJobName"]] = job
                if len(details) == len(summaries):
                    break
        return details


def _word(kind: SageMakerKind) -> str:
    return "Training" if kind == "training" else "Processing"


def _newest(runs: Iterable[_Key]) -> _Key:
    return max(runs, key=_age)


def _age(key: _Key) -> tuple[str, str]:
    return stamp_in(key[1]), key[1]
