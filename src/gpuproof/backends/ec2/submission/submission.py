"""One submission: stores the run's files, launches its instances in the first zone that has them, or leaves nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.backends.ec2.requests.launch_objects import record_call, region_mark_call
from gpuproof.backends.ec2.requests.run_instances import launch_call
from gpuproof.backends.ec2.submission.capacity import (
    UsedQuotas,
    is_refused_permission,
    no_capacity,
    unavailable_type,
)
from gpuproof.backends.ec2.submission.errors import next_attempt, zones_with_capacity
from gpuproof.backends.ec2.submission.launch import Launcher
from gpuproof.backends.ec2.submission.network import create_network
from gpuproof.backends.ec2.target import EC2Target, Zone
from gpuproof.backends.ec2.user_data import user_data
from gpuproof.backends.errors import NoCapacity, UnavailableType
from gpuproof.backends.progress import SilentProgress, SubmitProgress
from gpuproof.backends.remote.execute import execute
from gpuproof.backends.remote.run_files import RunFiles, deletion_call
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError

_USABLE_DELAYS = (2.0, 4.0, 8.0, 16.0)
"""Seconds before each further attempt with a new instance profile or security group.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html: changes become visible within seconds.
"""


@dataclass(frozen=True)
class Launched:
    """The instances that were launched.

    Args:
        record: its record, which is in the bucket.
        target: the instance type.
        zone: the zone.
        tried: the instance types and zones that were refused before.
    """

    record: LaunchRecord
    target: EC2Target
    zone: Zone
    tried: tuple[UnavailableType, ...] = ()


def submit_once(
    plan: EC2Plan,
    aws: Aws,
    catalogue: Catalogue,
    progress: SubmitProgress | None = None,
    *,
    before: tuple[UnavailableType, ...] = (),
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> Launched:
    """Create everything in the plan, and the instances last.

    Without capacity in a zone, the next zone is tried, then the next instance type, then the next region; without quota,
    the next type.

    Args:
        before: what earlier runs of the same job tried.
        sleep: waits for a number of seconds.
        clock: the time in seconds since the epoch.

    Raises:
        NoCapacity: EC2 refused every instance type of the plan.
        GPUproofError: a request failed; what was created has been deleted.
    """
    return _Submission(plan, aws, catalogue, progress or SilentProgress(), sleep, clock).run(before)


class _Submission:
    def __init__(
        self,
        plan: EC2Plan,
        aws: Aws,
        catalogue: Catalogue,
        progress: SubmitProgress,
        sleep: Callable[[float], None],
        clock: Callable[[], float],
    ) -> None:
        self._plan = plan
        self._aws = aws
        self._catalogue = catalogue
        self._progress = progress
        self._created = clock()
        self._files = RunFiles(aws, plan.bucket, plan.uploads, progress)
        self._launchers = {
            region: Launcher(aws.in_region(region), plan.run_id, progress, sleep, plan.job.instance_count)
            for region in plan.regions
        }
        self._record_undo: ApiCall | None = None
        self._region_mark: ApiCall | None = None
        self._refused: AwsRefused | None = None
        self._new_groups: set[str] = set()
        self._sleep = sleep

    def run(self, before: tuple[UnavailableType, ...]) -> Launched:
        for target in self._plan.targets:
            for zone in target.zones[:1]:
                self._launch_call(target, zone)  # a job that exceeds EC2's limits is rejected first
        try:
            self._files.create_bucket()
            self._files.upload()
            self._create_network(self._plan.target.region)
            self._files.fill_code_channel(self._plan.code_calls())
            return self._launch(list(before))
        except BaseException as error:
            self._roll_back(error)
            raise

    def _launch(self, tried: list[UnavailableType]) -> Launched:
        used = UsedQuotas(self._plan, self._catalogue)
        left_out: set[str] = set()
        for target in self._plan.targets:
            if target.region in left_out:
                continue
            if (covered := used.refusal(target)) is not None:
                self._note(tried, covered)
                continue
            try:
                launched = self._launch_type(target, tried, used)
            except AwsRefused as refused:
                code, message = refused.code, refused.aws_message
                is_last = target.region == self._plan.regions[-1]
                if next_attempt(code, message) != "region" or refused.maybe_done or is_last:
                    raise
                left_out.add(target.region)
                self._note(tried, self._unavailable(target, target.zones[0], refused))
                continue
            if launched is not None:
                return launched
        if self._refused is not None and all(map(is_refused_permission, tried)):
            raise self._refused  # its message says more than a list of types
        raise no_capacity(tried, self._plan, self._catalogue)

    def _launch_type(
        self, target: EC2Target, tried: list[UnavailableType], used: UsedQuotas
    ) -> Launched | None:
        """Launch one instance type in the first of its zones that has capacity; None if none has.

        Raises:
            AwsRefused: no other zone or type of the region is worth trying.
        """
        self._create_network(target.region)
        for call in self._plan.job_calls(target):
            self._files.run_undo.add(call.undo)
            execute(self._aws, call)
        for zone, prefer in _ZoneOrder(target):
            try:
                return self._launch_in(target, zone, tuple(tried))
            except AwsRefused as refused:
                code, message = refused.code, refused.aws_message
                following = next_attempt(code, message)
                if following in ("again", "stop", "region") or refused.maybe_done:
                    raise
                unavailable = self._unavailable(target, zone, refused)
                self._note(tried, unavailable)
                if following == "quota":
                    used.add(target, unavailable)
                if following != "zone":
                    return None
                prefer(zones_with_capacity(message))
        return None

    def _create_network(self, region: str) -> None:
        """Create what the network of a region lacks, when the region is tried."""
        network = self._plan.networks[region]
        if network.calls:
            if not network.groups:
                self._new_groups.add(region)
            network = create_network(self._aws.in_region(region), network, self._progress, self._sleep)
            self._plan = replace(self._plan, networks={**self._plan.networks, region: network})

    def _launch_in(self, target: EC2Target, zone: Zone, tried: tuple[UnavailableType, ...]) -> Launched:
        record = self._plan.record(target, zone, self._created)
        call = self._launch_call(target, zone)
        self._write_record(record)
        self._progress.step(call.what)
        record = replace(record, instances=self._launch_when_usable(target.region, call))
        self._write_record(record)
        return Launched(record, target, zone, tried)

    def _launch_when_usable(self, region: str, call: ApiCall) -> tuple[str, ...]:
        """Launch the instances; while EC2 does not know a new instance profile or security group, again some seconds later."""
        for delay in (*_USABLE_DELAYS, None):
            try:
                return self._launchers[region].launch(call.request)
            except AwsRefused as refused:
                is_new = refused.code != "InvalidGroup.NotFound" or region in self._new_groups
                following = next_attempt(refused.code, refused.aws_message)
                if delay is None or following != "again" or not is_new:
                    raise
                self._progress.step("wait until EC2 knows the instance profile and the security group")
                self._sleep(delay)
        raise AssertionError("unreachable")

    def _launch_call(self, target: EC2Target, zone: Zone) -> ApiCall:
        program = user_data(self._plan.host_parameters(target))
        return launch_call(self._plan, target, zone, program)

    def _write_record(self, record: LaunchRecord) -> None:
        """Write the record by which `gpuproof ps` finds the run, even if this process is killed."""
        call = record_call(record)
        self._files.run_undo.discard(call.undo)
        self._files.run_undo.add(call.undo)
        self._record_undo = call.undo
        execute(self._aws, call)
        self._mark_region(record)

    def _mark_region(self, record: LaunchRecord) -> None:
        """Have the listing of the launch records name another region than the bucket's, where `ps` looks for instances."""
        mark = None if record.region == self._plan.region else region_mark_call(record)
        before, self._region_mark = self._region_mark, mark
        if mark == before:
            return
        if mark is not None:
            self._files.run_undo.add(mark.undo)
            execute(self._aws, mark)
        if before is not None and before.undo is not None:
            execute(self._aws, before.undo)

    def _unavailable(self, target: EC2Target, zone: Zone, refused: AwsRefused) -> UnavailableType:
        code, message = refused.code, refused.aws_message
        self._refused = self._refused or refused
        return unavailable_type(self._plan, target, zone, code, message, self._catalogue, refused.remedy)

    def _note(self, tried: list[UnavailableType], unavailable: UnavailableType) -> None:
        tried.append(unavailable)
        self._progress.report("note", f"{unavailable.summary}\n{unavailable.quota_hint}".rstrip())

    def _roll_back(self, error: BaseException) -> None:
        self._progress.step("delete what was created")
        launched = any(one.may_have_launched for one in self._launchers.values())
        problems = [problem for one in self._launchers.values() for problem in one.terminate()]
        if problems:
            # `gpuproof stop` needs the record. Without its code, the instance shuts down by itself.
            mark = self._region_mark
            for undo in (self._record_undo, None if mark is None else mark.undo):
                self._files.run_undo.discard(undo)
        elif launched:
            problems += self._forget_host_files()
        problems += self._files.roll_back(keep_uploads=isinstance(error, NoCapacity | AwsUnreachable))
        for problem in problems:
            self._progress.report("note", f"not deleted: {problem}")

    def _forget_host_files(self) -> list[str]:
        """Have the files that the instance has written deleted with the rest of the run."""
        bucket, prefix = self._plan.bucket.name, self._plan.layout.prefix
        try:
            left = [item.key for item in self._aws.list_objects(bucket, prefix)]
        except GPUproofError as error:
            return [f"files below s3://{bucket}/{prefix}: {error.message}"]
        if left:
            self._files.run_undo.add(deletion_call(bucket, left, "the run's files"))
        return []


class _ZoneOrder:
    """The zones of a target, those that EC2 recommends first.

    Args:
        target: the instance type.
    """

    def __init__(self, target: EC2Target) -> None:
        self._left = list(target.zones)

    def __iter__(self) -> Iterator[tuple[Zone, Callable[[tuple[str, ...]], None]]]:
        """Yield each zone, with a function that moves zones of these names to the front of the others."""
        while self._left:
            yield self._left.pop(0), self._prefer

    def _prefer(self, names: tuple[str, ...]) -> None:
        self._left.sort(key=lambda zone: zone.name not in names)  # a stable order
