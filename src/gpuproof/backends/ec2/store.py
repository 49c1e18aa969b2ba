"""Finds and lists runs on EC2 by their launch records in the bucket; no local state is needed, but what cannot change is cached."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from gpuproof.backends.aws import CONNECTIONS, Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.aws.services.ec2 import RUN_TAG, tag_dict
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.ec2.requests.launch_objects import UnreadableLaunch, read_launch
from gpuproof.backends.ec2.run import EC2Run
from gpuproof.backends.ec2.tracking.ended_runs import EndedRuns
from gpuproof.backends.ec2.tracking.host_reports import HostReport, read_host_reports
from gpuproof.backends.ec2.tracking.interrupted_launch import completed_launch
from gpuproof.backends.ec2.tracking.records import record_of
from gpuproof.backends.errors import AmbiguousRun
from gpuproof.backends.hosts import host_names
from gpuproof.backends.record import RunRecord
from gpuproof.backends.remote.bucket import find_bucket
from gpuproof.backends.remote.run_id import is_run_id, job_name_in, name_in_id, stamp_in
from gpuproof.backends.remote.s3_layout import LAUNCHES, launched_run, region_of_launch
from gpuproof.catalogue import Catalogue
from gpuproof.errors import RunNotFound

_READ_AT_ONCE = 40
"""Number of runs whose files are read before the first of them is listed."""


_Instances = dict[str, dict[str, dict[str, Any]]]
"""Descriptions of instances by run and id."""


@dataclass(frozen=True)
class _Listing:
    """The runs that have launch records.

    Args:
        etags: the entity tags of their launch records by run, newest first.
        regions: where their instances are: the bucket's region first.
    """

    etags: Mapping[str, str]
    regions: tuple[str, ...]


class EC2RunStore:
    """The runs of one bucket, in one account and region; implements `gpuproof.backends.base.RunStore`.

    Args:
        make: creates the run objects; for tests.
        cache: the user's cache folder; None to read everything from AWS.

    Attributes:
        notes: remarks for the user on the last listing.
    """

    backend = "ec2"

    def __init__(self, aws: Aws, make: Callable[..., EC2Run] = EC2Run, *, cache: Path | None = None) -> None:
        self.notes: list[str] = []
        self._cache = cache
        self._aws = aws
        self._catalogue = Catalogue.load()
        self._make = make
        self._known: dict[str, EC2Run] = {}

    def records(self) -> Iterator[RunRecord]:
        """All runs, newest first: one listing of the bucket, one of the instances, and two or three small files per run.

        The files of runs that have ended are read once. Runs whose launch records cannot be read are left out, with a note.
        """
        if (bucket := find_bucket(self._aws)) is None:
            return
        listing = self._launches(bucket)
        yield from self._read(bucket, listing.etags, listing.etags, self._instances(listing.regions))

    def newest(self, count: int) -> tuple[list[RunRecord], int]:
        """The newest `count` runs and all that have living instances, newest first; and the number of runs left out."""
        if (bucket := find_bucket(self._aws)) is None:
            return [], 0
        listing = self._launches(bucket)
        instances, run_ids = self._instances(listing.regions), [*listing.etags]
        living = {
            name
            for known in instances.values()
            for name, those in (known or {}).items()
            if any(entry.get("State", {}).get("Name") != "terminated" for entry in those.values())
        }
        wanted = [*run_ids[:count], *(id_ for id_ in run_ids[count:] if id_ in living)]
        return list(self._read(bucket, wanted, listing.etags, instances)), len(run_ids) - len(wanted)

    def find(self, name: str | None) -> RunRecord:
        """Look up a run; see `gpuproof.backends.base.RunStore.find`.

        Raises:
            RunNotFound: no run, or more than one, matches.
        """
        bucket = find_bucket(self._aws)
        if bucket is not None and name is not None and is_run_id(name) and self._has(bucket, name):
            return self._known[name].record
        run_ids = [] if bucket is None else [*self._launches(bucket).etags]
        if bucket is None or (not run_ids and name is None):
            raise RunNotFound(
                f"There are no runs on EC2 in {self._aws.region}.",
                remedy="`gpuproof run train.py --on ec2` starts one; use --region for another region, and "
                "GPUPROOF_BUCKET for another bucket.",
            )
        if name is None:
            return self._record(bucket, run_ids[0])
        # The ids of a long name's runs contain only its beginning.
        for run_id in (id_ for id_ in run_ids if job_name_in(id_) == name_in_id(name)):
            if self._has(bucket, run_id) and self._known[run_id].launch.job_name == name:
                return self._known[run_id].record
        near = sorted(id_ for id_ in run_ids if id_.startswith(name) or id_.endswith(name))
        if len(near) > 1:
            listed = ", ".join(near[:5]) + (" …" if len(near) > 5 else "")
            raise AmbiguousRun(f"{name} matches {len(near)} runs: {listed}.", remedy="Type more of the id.")
        if near:
            return self._record(bucket, near[0])
        raise RunNotFound(
            f"No run on EC2 in {self._aws.region} matches {name}.",
            remedy="`gpuproof ps --on ec2` lists them; use --region for another region, and GPUPROOF_BUCKET for "
            "another bucket.",
        )

    def run(self, record: RunRecord) -> EC2Run:
        """The run of a record."""
        if record.id not in self._known:
            bucket = find_bucket(self._aws)
            if bucket is None or not self._has(bucket, record.id):
                raise _removed(record.id)
        return self._known[record.id]

    def _record(self, bucket: str, run_id: str) -> RunRecord:
        if not self._has(bucket, run_id):
            raise _removed(run_id)
        return self._known[run_id].record

    def _has(self, bucket: str, run_id: str) -> bool:
        """Whether a run has a launch record; if so, its run object is in `self._known`."""
        if run_id not in self._known:
            launch = read_launch(self._aws, bucket, run_id)
            if launch is None:
                return False
            self._known[run_id] = self._make(self._aws, launch, catalogue=self._catalogue)
        return True

    def _launches(self, bucket: str) -> _Listing:
        """All runs, from one listing."""
        etags: dict[str, str] = {}
        regions = {self._aws.region: None}
        for item in self._aws.list_objects(bucket, LAUNCHES):
            if (run_id := launched_run(item.key)) is not None:
                etags[run_id] = item.etag
            elif (region := region_of_launch(item.key)) is not None:
                regions[region] = None
        newest_first = sorted(etags.items(), key=lambda etag: _age(etag[0]), reverse=True)
        return _Listing(dict(newest_first), tuple(regions))

    def _instances(self, regions: Sequence[str]) -> dict[str, _Instances | None]:
        """Descriptions of the instances of all runs, by region.

        None for a region in which the user may not describe instances, or for another one than the bucket's that cannot be
        reached.
        """
        self.notes = []

        def describe(region: str) -> _Instances | None:
            found: _Instances = {}
            try:
                for instance in self._aws.in_region(region).tagged_instances():
                    found.setdefault(tag_dict(instance["Tags"])[RUN_TAG], {})[instance["InstanceId"]] = (
                        instance
                    )
            except (AwsRefused, AwsUnreachable) as error:
                if isinstance(error, AwsRefused) and error.is_permission:
                    return None
                if region == self._aws.region:
                    raise
                self.notes.append(f"the instances in {region} are not known: {error.message}")
                return None
            return found

        if len(regions) == 1:
            return {regions[0]: describe(regions[0])}
        with ThreadPoolExecutor(len(regions)) as pool:
            return dict(zip(regions, pool.map(describe, regions), strict=True))

    def _read(
        self,
        bucket: str,
        run_ids: Iterable[str],
        launches: Mapping[str, str],
        instances: Mapping[str, _Instances | None],
    ) -> Iterator[RunRecord]:
        """The records of runs, in their order; runs that were removed in the meantime are left out."""
        ended = EndedRuns(None if self._cache is None else self._cache / "ec2-runs" / bucket)
        ended.remove_others(launches)

        def read(run_id: str) -> RunRecord | UnreadableLaunch | None:
            if (files := ended.get(run_id, launches[run_id])) is None:
                try:
                    files = self._files(bucket, run_id)
                except UnreadableLaunch as error:
                    return error
                if files is None:
                    return None
                ended.add(launches[run_id], *files)
            launch, reports = files
            there = instances.get(launch.region)
            known = None if there is None else there.get(run_id, {})
            now = time.time()
            launch = completed_launch(self._aws, launch, known, now)
            return record_of(launch, known, reports, now=now)

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            left = iter(run_ids)
            while some := list(islice(left, _READ_AT_ONCE)):
                for found in pool.map(read, some):
                    if isinstance(found, RunRecord):
                        yield found
                    elif found is not None:
                        self.notes.append(f"{found.run_id} is not listed: {found.message} {found.remedy}")

    def _files(self, bucket: str, run_id: str) -> tuple[LaunchRecord, dict[str, HostReport]] | None:
        """The launch record and the reports of a run; None if it was removed."""
        launch = read_launch(self._aws, bucket, run_id)
        if launch is None:
            return None
        hosts = host_names(launch.instance_count)
        return launch, read_host_reports(self._aws, bucket, run_id, hosts, with_state=True)


def _removed(run_id: str) -> RunNotFound:
    return RunNotFound(f"{run_id} no longer exists: it was removed.", remedy="gpuproof ps")


def _age(run_id: str) -> tuple[str, str]:
    return stamp_in(run_id), run_id
