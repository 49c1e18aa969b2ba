"""One submission: stores the run's files, launches its instances in the first zone that has them, or leaves nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.backends.ec2.planning.network import Network, rule_call
from gpuproof.backends.ec2.planning.warnings import NOT_COVERED
from gpuproof.backends.ec2.requests.launch_objects import read_launch, record_call, region_mark_call
from gpuproof.backends.ec2.requests.log_group import create_log_group
from gpuproof.backends.ec2.requests.termination_schedule import termination_call
from gpuproof.backends.ec2.submission.capacity import (
    UsedQuotas,
    is_refused_permission,
    no_capacity,
    unavailable_type,
)
from gpuproof.backends.ec2.submission.errors import Next, next_attempt, zones_with_capacity
from gpuproof.backends.ec2.submission.launch import Launcher
from gpuproof.backends.ec2.target import EC2Target, Zone
from gpuproof.backends.errors import UnavailableType
from gpuproof.backends.progress import SilentProgress, SubmitProgress
from gpuproof.backends.remote.execute import execute, step_of, undo_of
from gpuproof.backends.remote.run_files import RunFiles, describe_remaining
from gpuproof.backends.transaction import Transaction, Undo
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError

_DELAYS = (2.0, 5.0, 10.0)
"""Seconds between attempts with a new group, which may become visible some seconds later."""

_USABLE_DELAYS = (2.0, 4.0, 8.0, 16.0)
"""Seconds before each further attempt with a new instance profile or security group.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html: changes become visible within seconds.
"""


@dataclass(frozen=True)
class Launched:
    """The instances that were launched.

    Args:
        record: its record, which is in the bucket.
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
    return _Submission(plan, aws, catalogue, progress or SilentProgress(), sleep, clock, list(before)).run()


class _Submission:
    def __init__(
        self,
        plan: EC2Plan,
        aws: Aws,
        catalogue: Catalogue,
        progress: SubmitProgress,
        sleep: Callable[[float], None],
        clock: Callable[[], float],
        tried: list[UnavailableType],
    ) -> None:
        self._plan = plan
        self._aws = aws
        self._catalogue = catalogue
        self._progress = progress
        self._sleep = sleep
        self._clock = clock
        self._created = clock()
        self._tried = tried
        self._transaction = Transaction(
            progress, rollback="delete what was created", describe=describe_remaining, sleep=sleep
        )
        self._files = RunFiles(aws, self._transaction, plan.bucket, plan.uploads, progress)
        several = len(plan.regions) > 1
        self._launchers = {
            region: Launcher(
                aws.in_region(region),
                plan.run_id,
                progress,
                sleep,
                plan.job.instance_count,
                f" in {region}" if several else "",
            )
            for region in plan.regions
        }
        self._candidates = _Candidates(plan, catalogue, self._skip)
        self._prepared: EC2Target | None = None
        self._region_mark: ApiCall | None = None
        self._refused: AwsRefused | None = None
        self._new_groups: set[str] = set()
        self._schedule: ApiCall | None = None

    def run(self) -> Launched:
        for target in self._plan.targets:
            for zone in target.zones[:1]:
                self._plan.launch_call(target, zone)  # a job that exceeds EC2's limits is rejected first
        with self._transaction as transaction:
            self._files.create_bucket()
            self._files.upload()
            create_log_group(self._aws, self._plan.log_calls, self._progress)
            self._create_network(self._plan.target.region)
            self._files.fill_code_channel(self._plan.code_calls())
            return transaction.first_available(
                self._candidates, self._launch, self._unavailable, self._no_capacity, self._tried
            )

    def _launch(self, candidate: tuple[EC2Target, Zone]) -> Launched:
        target, zone = candidate
        if target is not self._prepared:
            self._prepared = None
            self._create_network(target.region)
            for call in self._plan.job_calls(target):
                self._transaction.execute(step_of(self._aws, call, shown=False))
            self._prepared = target
        # Written before the launch, so that `gpuproof ps` finds the run even if this process is killed.
        record = self._plan.record(target, zone, self._created, self._clock())
        self._transaction.execute(step_of(self._aws, record_call(record), needed=True, shown=False))
        self._mark_region(record)
        call = self._plan.launch_call(target, zone)
        self._progress.step(call.what)
        record = replace(record, instances=self._launch_when_usable(target.region, call))
        self._check_wanted(record)
        record = self._create_schedule(record)
        execute(self._aws, record_call(record))
        return Launched(record, target, zone, tuple(self._tried))

    def _create_schedule(self, record: LaunchRecord) -> LaunchRecord:
        """Create the schedule that terminates the instances if nothing else does; returns the record with its name.

        It needs their ids. A refusal is no failure: their own watchdog ends them in all cases but those that the note names.
        """
        if self._plan.schedule_role is None:
            return record  # the plan has said so
        call = termination_call(record, self._plan.schedule_role)
        try:
            execute(self._aws, call)
        except (AwsRefused, AwsUnreachable) as error:
            self._progress.report("note", f"{NOT_COVERED} Its schedule cannot be created: {error.message}")
            if not error.maybe_done:
                return record
        self._schedule = call
        return replace(record, schedule=call.request["Name"])

    def _delete_schedule(self) -> None:
        if self._schedule is not None and (delete := self._schedule.undo) is not None:
            undo_of(self._aws, replace(delete, region=self._schedule.region)).call()
            self._schedule = None

    def _check_wanted(self, record: LaunchRecord) -> None:
        """Check that the run was neither stopped nor removed while its instances were launched.

        Raises:
            GPUproofError: it was, so that its instances are terminated.
        """
        try:
            current = read_launch(self._aws, record.bucket, record.run_id)
        except (AwsRefused, AwsUnreachable):
            return  # a user who may not read the record cannot be told
        if current is None or current.stopped:
            word = "removed" if current is None else "stopped"
            raise GPUproofError(
                f"{record.run_id} was {word} by another command while its instance was being launched.",
                remedy="Nothing of it runs. Run it again if that was a mistake.",
            )

    def _create_network(self, region: str) -> None:
        """Create what the network of a region lacks, when the region is tried."""
        network = self._plan.networks[region]
        if network.calls:
            if not network.groups:
                self._new_groups.add(region)
            network = create_network(self._aws.in_region(region), network, self._progress, self._sleep)
            self._plan = replace(self._plan, networks={**self._plan.networks, region: network})

    def _launch_when_usable(self, region: str, call: ApiCall) -> tuple[str, ...]:
        """Launch the instances; while EC2 does not know a new instance profile or security group, again some seconds later."""
        what = "delete the schedule that terminates the instances"
        step = self._launchers[region].step(
            call.request,
            Undo(what, self._delete_schedule, needed=True),
            self._files.undo_written(self._plan.layout.prefix),
        )
        for delay in (*_USABLE_DELAYS, None):
            try:
                return self._transaction.execute(step) or ()
            except AwsRefused as refused:
                is_new = refused.code != "InvalidGroup.NotFound" or region in self._new_groups
                following = next_attempt(refused.code, refused.aws_message)
                if delay is None or following != "again" or not is_new:
                    raise
                self._progress.step("wait until EC2 knows the instance profile and the security group")
                self._sleep(delay)
        raise AssertionError("unreachable")

    def _mark_region(self, record: LaunchRecord) -> None:
        """Have the listing of the launch records name another region than the bucket's, where `ps` looks for instances."""
        mark = None if record.region == self._plan.region else region_mark_call(record)
        before, self._region_mark = self._region_mark, mark
        if mark == before:
            return
        if mark is not None:
            self._transaction.execute(step_of(self._aws, mark, needed=True, shown=False))
        if before is not None and before.undo is not None:
            execute(self._aws, before.undo)

    def _unavailable(self, candidate: tuple[EC2Target, Zone], error: GPUproofError) -> UnavailableType | None:
        """What EC2 refused, if another zone, type or region is worth trying; the candidates then follow."""
        if not isinstance(error, AwsRefused):
            return None
        target, zone = candidate
        code, message = error.code, error.aws_message
        following = next_attempt(code, message)
        if following == "region":
            if target.region == self._plan.regions[-1]:
                return None
            zone = target.zones[0]
        elif following in ("again", "stop") or self._prepared is None:
            return None
        self._refused = self._refused or error
        unavailable = unavailable_type(self._plan, target, zone, code, message, self._catalogue, error.remedy)
        self._candidates.leave_out(target, following, unavailable, zones_with_capacity(message))
        self._note(unavailable)
        return unavailable

    def _no_capacity(self, tried: list[UnavailableType]) -> GPUproofError:
        if self._refused is not None and all(map(is_refused_permission, tried)):
            return self._refused  # its message says more than a list of types
        return no_capacity(tried, self._plan, self._catalogue)

    def _skip(self, unavailable: UnavailableType) -> None:
        self._tried.append(unavailable)
        self._note(unavailable)

    def _note(self, unavailable: UnavailableType) -> None:
        self._progress.report("note", f"{unavailable.summary}\n{unavailable.quota_hint}".rstrip())


class _Candidates:
    """The instance types and zones of a plan, without those that an earlier refusal rules out.

    Args:
        covered: called with a type that needs as much of a quota as one that was refused.
    """

    def __init__(
        self, plan: EC2Plan, catalogue: Catalogue, covered: Callable[[UnavailableType], None]
    ) -> None:
        self._targets = plan.targets
        self._used = UsedQuotas(plan, catalogue)
        self._covered = covered
        self._regions: set[str] = set()
        self._zones: list[Zone] = []

    def __iter__(self) -> Iterator[tuple[EC2Target, Zone]]:
        for target in self._targets:
            if target.region in self._regions:
                continue
            if (covered := self._used.refusal(target)) is not None:
                self._covered(covered)
                continue
            self._zones = list(target.zones)
            while self._zones:
                yield target, self._zones.pop(0)

    def leave_out(
        self, target: EC2Target, following: Next, refused: UnavailableType, recommended: tuple[str, ...]
    ) -> None:
        """Continue after a refusal.

        Args:
            recommended: zones that EC2 recommends; they come first.
        """
        if following == "region":
            self._regions.add(target.region)
        if following == "quota":
            self._used.add(target, refused)
        if following == "zone":
            self._zones.sort(key=lambda zone: zone.name not in recommended)  # a stable order
        else:
            self._zones.clear()


def create_network(
    aws: Aws, network: Network, progress: SubmitProgress, sleep: Callable[[float], None]
) -> Network:
    """Create the security group of all runs in the VPC, which is kept; returns the network with its id.

    Args:
        aws: the client of the network's region.
        sleep: waits for a number of seconds.

    Raises:
        GPUproofError: a request failed.
    """
    groups = network.groups
    for call in network.calls:
        progress.step(call.what)
        if call.operation == "create_security_group":
            groups = (_create_group(aws, call),)
        else:
            _add_rule(aws, rule_call(groups[0]), sleep)
    return replace(network, groups=groups, calls=())


def _create_group(aws: Aws, call: ApiCall) -> str:
    try:
        return execute(aws, call)["GroupId"]
    except (AwsRefused, AwsUnreachable) as error:
        duplicate = isinstance(error, AwsRefused) and error.code == "InvalidGroup.Duplicate"
        if not duplicate and not error.maybe_done:
            raise
        # Another run, or the request whose response was lost, has created it.
        group = aws.security_group(call.request["GroupName"], call.request["VpcId"])
        if group is None:
            raise
        return group


def _add_rule(aws: Aws, call: ApiCall, sleep: Callable[[float], None]) -> None:
    for delay in (*_DELAYS, None):
        try:
            execute(aws, call)
        except (AwsRefused, AwsUnreachable) as error:
            code = error.code if isinstance(error, AwsRefused) else ""
            if code == "InvalidPermission.Duplicate":
                return  # another run has added it
            if delay is None or (code != "InvalidGroup.NotFound" and not error.maybe_done):
                raise
            sleep(delay)
        else:
            return
