"""Plans the instance types of a job: machine image, quota, zones, price, launcher; types that cannot work are left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpuproof.backends.agent_job.expected_gpus import ExpectedGpus, expected_gpus
from gpuproof.backends.agent_job.launch_settings import launch_settings, script_uses
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.ec2.planning.ami import AmiChooser
from gpuproof.backends.ec2.planning.container_image import container_image
from gpuproof.backends.ec2.planning.volume import IMAGE_GIB, volume_gib
from gpuproof.backends.ec2.planning.zones import ZoneFinder
from gpuproof.backends.ec2.target import ChosenAmi, ContainerImage, EC2Target, Zone
from gpuproof.backends.errors import UnavailableType
from gpuproof.backends.remote.planning.framework import Framework
from gpuproof.backends.remote.planning.instance_search import Candidate, list_alternatives
from gpuproof.backends.remote.planning.quota import QuotaCheck, no_quota
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError, InvalidJob
from gpuproof.jobs.models.ec2 import EC2Region
from gpuproof.jobs.models.script_jobs import Job
from gpuproof.jobs.source.tree import SourceTree

_QUOTA_EXCEEDED = "VcpuLimitExceeded"
"""The error with which EC2 rejects a launch."""


@dataclass(frozen=True)
class PlannedTargets:
    """The instance types that are left.

    Args:
        targets: in the order in which they are tried; at least one.
        warnings: which types were left out, and what to know about the others.
    """

    targets: tuple[EC2Target, ...]
    warnings: tuple[str, ...]


class TargetPlanner:
    """Plans instance types of one job.

    Args:
        catalogue: facts about types, images and quotas.
        job: with absolute paths.
        settings: the job's settings for the region.
        zones: the zones of the job's subnets.
        clock: the time in seconds since the epoch.
        named: whether messages name the region, because it is not the only one.
    """

    def __init__(
        self,
        aws: Aws,
        catalogue: Catalogue,
        job: Job,
        settings: EC2Region,
        zones: ZoneFinder,
        clock: Callable[[], float] = time.time,
        *,
        named: bool = False,
    ) -> None:
        self._aws = aws
        self._catalogue = catalogue
        self._job = job
        self._settings = settings
        self._label = settings.region if named else ""
        self._zones = zones
        self._clock = clock
        self._quota = QuotaCheck(
            aws, catalogue, code=_QUOTA_EXCEEDED, spot=job.resources.spot, count=job.instance_count
        )

    def plan(
        self,
        candidates: Sequence[Candidate],
        framework: Framework | None,
        tree: SourceTree,
        inputs: Callable[[], int],
    ) -> PlannedTargets:
        """The candidates that can be launched.

        Args:
            framework: the job's framework; None if it uses none.
            inputs: returns the size of all inputs in bytes.

        Raises:
            InvalidJob: no machine image or no zone for any of them.
            NoCapacity: the account's quotas are too small for all of them.
        """
        chooser = AmiChooser(self._aws, self._catalogue, self._settings.ami, framework, tree)
        uses = script_uses(self._job, max(candidate.gpus for candidate in candidates))
        targets: list[EC2Target] = []
        unavailable: list[UnavailableType] = []
        errors: list[InvalidJob] = []
        warnings: list[str] = []
        size: int | None = None
        for candidate in candidates:
            # First what needs no request for an image: a new account has quotas of 0.
            if (refused := self._quota.problem(candidate.name)) is not None:
                unavailable.append(replace(refused, region=self._label))
                continue
            try:
                container = container_image(
                    self._job, framework, candidate, self._catalogue, self._aws.region
                )
                ami = chooser.choose(candidate, container)
                zones, spot_price = self._where(candidate)
                size = inputs() if size is None else size
                volume = self._volume(candidate, ami, container, size)
            except InvalidJob as error:
                errors.append(error)
                continue
            launch = launch_settings(self._job, uses, candidate.gpus, candidate.price)
            targets.append(
                EC2Target(
                    name=candidate.name,
                    region=self._settings.region,
                    instance=candidate.instance,
                    price=candidate.price,
                    spot_price=spot_price,
                    ami=ami,
                    zones=zones,
                    expected=_expected(self._job, candidate, self._catalogue),
                    container=container,
                    launch=launch,
                    volume_gb=volume,
                    local_disk=_has_local_disk(candidate),
                )
            )
            if ami.note is not None:
                warnings.append(ami.note)
            if container is not None:
                warnings += container.notes
        if not targets:
            raise self._nothing_left(unavailable, errors)
        left_out = [f"{unavailable_type.summary}: it is not tried" for unavailable_type in unavailable]
        where = f" in {self._label}" if self._label else ""
        left_out += [f"not tried{where}: {error.message}" for error in errors]
        return PlannedTargets(tuple(targets), tuple(dict.fromkeys([*left_out, *warnings])))

    def _where(self, candidate: Candidate) -> tuple[tuple[Zone, ...], float | None]:
        """The zones that offer a type, and the lowest spot price in them.

        Raises:
            InvalidJob: no zone offers it.
        """
        prices = self._spot_prices(candidate.name) if self._job.resources.spot else {}
        zones = self._zones.offering(candidate.name, prices)
        if not zones:
            where = "the job's subnets" if self._settings.subnets else f"{self._aws.region}"
            raise InvalidJob(
                f"EC2 offers {candidate.name} in no availability zone of {where}.",
                remedy=self._regions(candidate)
                or list_alternatives(candidate.name, None, self._catalogue, self._aws.region)
                or "Use another instance type or region.",
            )
        return zones, min((prices[zone.name] for zone in zones if zone.name in prices), default=None)

    def _spot_prices(self, name: str) -> dict[str, float]:
        try:
            return self._aws.spot_prices(name, self._clock())
        except AwsRefused as refused:
            if not refused.is_permission:
                raise
            return {}

    def _regions(self, candidate: Candidate) -> str:
        offered = [offering.region for offering in self._catalogue.offerings(candidate.name)]
        near = self._catalogue.nearest_regions(self._aws.region, offered)[:3]
        near = [region for region in near if region != self._aws.region]
        return f"Nearest regions that offer it: {', '.join(near)} (--region)" if near else ""

    def _volume(
        self, candidate: Candidate, ami: ChosenAmi, container: ContainerImage | None, inputs: int
    ) -> int:
        given = self._job.ec2.volume_size
        more = 0 if container is None else IMAGE_GIB
        return volume_gib(ami, given, inputs, image=more, local_disk=_has_local_disk(candidate))

    def _nothing_left(
        self, unavailable: Sequence[UnavailableType], errors: Sequence[InvalidJob]
    ) -> GPUproofError:
        if not unavailable:
            first, *others = errors
            more = "".join(f"\n{error.message}" for error in others)
            return InvalidJob(f"{first.message}{more}", remedy=first.remedy)
        return no_quota(unavailable, errors)


def _has_local_disk(candidate: Candidate) -> bool:
    return candidate.instance is not None and candidate.instance.local_disk > 0


def _expected(job: Job, candidate: Candidate, catalogue: Catalogue) -> ExpectedGpus:
    """The GPUs that the job asks for; for a type chosen by resources, with that type's GPU model."""
    if job.instance_type is not None or candidate.instance is None:
        return expected_gpus(job.model_copy(update={"instance_type": candidate.name}), catalogue)
    return replace(expected_gpus(job, catalogue), name=candidate.instance.gpu_model)
