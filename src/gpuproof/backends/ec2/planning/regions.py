"""Plans a job in each of its regions: its own, and those that are tried after it. Only instances run in the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.ec2.planning.instance_types import choose_instance_types
from gpuproof.backends.ec2.planning.network import Network, plan_network
from gpuproof.backends.ec2.planning.targets import TargetPlanner
from gpuproof.backends.ec2.planning.zones import ZoneFinder
from gpuproof.backends.ec2.target import EC2Target
from gpuproof.backends.errors import NoCapacity
from gpuproof.backends.remote.planning.framework import Framework
from gpuproof.backends.remote.planning.instance_search import InstanceChoice
from gpuproof.backends.remote.planning.region import check_region
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.regions import partition_of
from gpuproof.errors import GPUproofError, InvalidJob, UsageError
from gpuproof.jobs.models.ec2 import EC2Region
from gpuproof.jobs.models.script_jobs import Job
from gpuproof.jobs.source.tree import SourceTree
from gpuproof.util.humanize import format_bytes

_NOT_ENABLED = frozenset(
    {"AuthFailure", "InvalidClientTokenId", "OptInRequired", "UnrecognizedClientException"}
)
"""Error codes of requests to a region that the account has not enabled, with credentials that work in others.

Source: https://docs.aws.amazon.com/accounts/latest/reference/manage-acct-regions.html and
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
"""


@dataclass(frozen=True)
class PlannedRegions:
    """What can be launched in all regions together.

    Args:
        targets: instance types, those of the job's own region first; at least one.
        networks: the security groups of each region with instance types.
        warnings: which types and regions were left out, and what to know about the others.
    """

    targets: tuple[EC2Target, ...]
    networks: Mapping[str, Network]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Region:
    """A region and the instance types to try in it, or the reason why there are none."""

    settings: EC2Region
    choice: InstanceChoice | InvalidJob


@dataclass(frozen=True)
class _Planned:
    """What can be launched in one region."""

    targets: tuple[EC2Target, ...]
    network: Network
    warnings: tuple[str, ...]


class RegionPlanner:
    """Plans the regions of one job, at the same time. A region that cannot work is left out with the reason.

    Args:
        aws: the client of the job's own region.
        catalogue: facts about types, prices, images and quotas.
        job: with absolute paths.
        clock: the time in seconds since the epoch.

    Raises:
        UsageError: a region is unknown, or in another partition of AWS.
        InvalidJob: no region has an instance type for the job.
    """

    def __init__(
        self, aws: Aws, catalogue: Catalogue, job: Job, clock: Callable[[], float] = time.time
    ) -> None:
        self._aws = aws
        self._catalogue = catalogue
        self._job = job
        self._clock = clock
        self.home = check_region(aws, catalogue)
        self._regions = [self._choose(settings) for settings in job.ec2.in_regions(self.home)]
        self._several = len(self._regions) > 1
        if all(isinstance(region.choice, InvalidJob) for region in self._regions):
            raise self._nowhere(
                [region.choice for region in self._regions if isinstance(region.choice, InvalidJob)]
            )

    def plan(
        self, framework: Framework | None, tree: SourceTree, inputs: Callable[[], int]
    ) -> PlannedRegions:
        """Everything that can be launched, in the order in which it is tried.

        Args:
            framework: the job's framework; None if it uses none.
            inputs: returns the size of all inputs in bytes; several threads call it.

        Raises:
            InvalidJob: no region has a machine image or a zone for any instance type.
            NoCapacity: the account's quotas are too small in all of them.
            GPUproofError: a request in the job's own region failed.
        """

        def plan(region: _Region) -> _Planned | GPUproofError:
            try:
                return self._plan(region, framework, tree, inputs)
            except (InvalidJob, NoCapacity, UsageError) as error:
                return error
            except GPUproofError as error:
                if region.settings.region == self.home:
                    raise
                return error

        if self._several:
            with ThreadPoolExecutor(len(self._regions)) as pool:
                found = list(pool.map(plan, self._regions))
        else:
            found = [plan(self._regions[0])]
        planned = {
            region.settings.region: one
            for region, one in zip(self._regions, found, strict=True)
            if isinstance(one, _Planned)
        }
        errors = [match for match in found if isinstance(match, GPUproofError)]
        if not planned:
            raise self._nowhere(errors)
        left_out = [
            f"not tried in {region.settings.region}: {_reason(one)}"
            for region, one in zip(self._regions, found, strict=True)
            if isinstance(one, GPUproofError)
        ]
        others = [region for region in planned if region != self.home]
        traffic = [self._traffic_note(others, inputs())] if others else []
        warnings = [*left_out, *(text for plan in planned.values() for text in plan.warnings), *traffic]
        return PlannedRegions(
            tuple(target for plan in planned.values() for target in plan.targets),
            {region: one.network for region, one in planned.items()},
            tuple(dict.fromkeys(warnings)),
        )

    def _choose(self, settings: EC2Region) -> _Region:
        region = settings.region
        if region != self.home:
            check_region(self._aws.in_region(region), self._catalogue)
            if partition_of(region) != partition_of(self.home):
                raise UsageError(
                    f"The job cannot move from {self.home} to {region}: they are separate AWS partitions, which no account "
                    "has together.",
                    remedy="Name other regions (--regions, or ec2: regions).",
                )
        try:
            return _Region(settings, choose_instance_types(self._job, self._catalogue, region))
        except InvalidJob as error:
            return _Region(settings, error)

    def _plan(
        self, region: _Region, framework: Framework | None, tree: SourceTree, inputs: Callable[[], int]
    ) -> _Planned:
        settings, choice = region.settings, region.choice
        if isinstance(choice, InvalidJob):
            raise choice
        name, is_home = settings.region, settings.region == self.home
        aws = self._aws.in_region(name)
        zones = ZoneFinder.find(aws, settings.subnets, self.home)
        planner = TargetPlanner(
            aws, self._catalogue, self._job, settings, zones, self._clock, named=self._several
        )
        planned = planner.plan(choice.candidates, framework, tree, inputs)
        network = plan_network(aws, zones.vpc, settings.security_groups, self._job.instance_count)
        note = network.note
        if not is_home:
            calls = tuple(replace(call, region=name) for call in network.calls)
            network = replace(network, calls=calls)
            note = f"if {name} is tried, {note}" if note else None
        return _Planned(
            planned.targets,
            network,
            (*choice.warnings, *planned.warnings, *zones.notes, *((note,) if note else ())),
        )

    def _traffic_note(self, regions: Sequence[str], inputs: int) -> str:
        what = f"inputs ({format_bytes(inputs)}), code and checkpoints" if inputs else "code and checkpoints"
        return (
            f"in {' and '.join(regions)}, instances read {what} from the bucket in {self.home} and write their results "
            "there: AWS bills that as data transfer between regions"
        )

    def _nowhere(self, errors: Sequence[GPUproofError]) -> GPUproofError:
        """The error of a job that no region can run: the first one, with the messages of the others."""
        first = next((error for error in errors if isinstance(error, NoCapacity)), errors[0])
        if len(errors) == 1:
            return first
        messages = "\n".join(dict.fromkeys([first.message, *map(_reason, errors)]))
        remedies = "\n".join(dict.fromkeys(error.remedy for error in errors if error.remedy))
        if isinstance(first, NoCapacity):
            tried = [each for error in errors if isinstance(error, NoCapacity) for each in error.tried]
            return NoCapacity(messages, remedies, tried)
        return first.replaced(messages, remedies or None)


def _reason(error: GPUproofError) -> str:
    """Why a region cannot be used, as a sentence."""
    if isinstance(error, AwsRefused) and error.code in _NOT_ENABLED:
        return f"the account has not enabled the region ({error.code})"
    return error.message
