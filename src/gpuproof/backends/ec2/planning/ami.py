"""Chooses a job's machine image: the job's own, or an AWS Deep Learning AMI for its framework and instance type."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.ec2.planning.ami_rows import TORCH, AmiRows, base_rows, framework_rows
from gpuproof.backends.ec2.planning.own_environment import own_environment
from gpuproof.backends.ec2.planning.unsupported import (
    compiled_at_start,
    cpu_only,
    no_image,
    unlisted_family,
)
from gpuproof.backends.ec2.target import ChosenAmi, ContainerImage, DriverNeed
from gpuproof.backends.remote.planning.framework import Framework
from gpuproof.backends.remote.planning.instance_search import Candidate
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.builds import FRAMEWORKS, parse_requirement
from gpuproof.catalogue.images import HUGGINGFACE
from gpuproof.catalogue.model import Ami
from gpuproof.errors import InvalidJob
from gpuproof.jobs.source.tree import SourceTree
from gpuproof.util.versions import version_key

_PYTHONS = {TORCH: ("/opt/pytorch/bin",), "tensorflow": ("/opt/tensorflow/bin",)}
"""The framework's environment in the AMI. Source: release notes of the DLAMIs, `dlami-notes` of the catalogue."""

_ROOT_DEVICES = {"ubuntu": "/dev/sda1", "amzn": "/dev/xvda"}
"""Name of the root device by operating system, where the image cannot be described."""

_PACKAGES = {TORCH: "torch", "tensorflow": r"tensorflow(?:[-_]\w+)?"}
_SHOWN = 4


@dataclass(frozen=True)
class _Image:
    """An AMI in the region, as far as it can be read."""

    id: str
    name: str = ""
    root_device: str = ""
    snapshot_gb: int = 0
    arch: str = ""
    other_devices: tuple[str, ...] = ()


class AmiChooser:
    """Chooses the machine images of a job's instance types; each image is looked up once.

    Args:
        catalogue: the AMIs, GPUs and framework builds.
        own: the id of the image that the job names.
        framework: the job's framework; None if it uses none.
    """

    def __init__(
        self, aws: Aws, catalogue: Catalogue, own: str | None, framework: Framework | None, tree: SourceTree
    ) -> None:
        self._aws = aws
        self._catalogue = catalogue
        self._own = own
        self._framework = framework
        self._tree = tree
        self._looked_up: dict[str, _Image | None] = {}

    def choose(self, candidate: Candidate, container: ContainerImage | None = None) -> ChosenAmi:
        """The image for one instance type.

        Args:
            container: the container image that the job runs in, for which the AMI has Docker and the driver only.

        Raises:
            InvalidJob: there is none.
        """
        if container is not None:
            return self._for_container(candidate, container)
        chosen = self._choose(candidate)
        requirement = self._requirement(chosen)
        if requirement is None:
            return chosen
        slow = compiled_at_start(requirement, candidate, self._catalogue)
        note = "; ".join(filter(None, (chosen.note, slow))) or None
        return replace(chosen, driver=driver_need(requirement, chosen.arch, self._catalogue), note=note)

    def _for_container(self, candidate: Candidate, container: ContainerImage) -> ChosenAmi:
        """A base AMI, which has Docker, the NVIDIA Container Toolkit, and a driver for the image's CUDA.

        Source: AWS's release notes of the base AMIs, which list the toolkit's version (`dlami-notes` of the catalogue).
        """
        need = cuda_need(container.cuda, self._catalogue) if candidate.gpus else None
        if self._own is not None:
            return replace(self._own_ami(self._own, candidate), driver=need, pythons=())
        rows = base_rows(candidate, self._catalogue, need, container=True)
        return replace(self._first(rows, candidate, "Docker and the driver for the image"), driver=need)

    def _choose(self, candidate: Candidate) -> ChosenAmi:
        if self._own is not None:
            return self._own_ami(self._own, candidate)
        framework = self._framework
        if framework is None:
            return self._first(base_rows(candidate, self._catalogue), candidate, "no framework is imported")
        rows = framework_rows(framework, candidate, self._catalogue)
        if (rows.version is not None or not rows.rows) and (
            own := self._own_environment(framework, candidate)
        ):
            return own
        if rows.rows:
            return self._first(rows, candidate, framework.because, self._framework_note(framework, rows))
        if self._is_required(framework):
            note = f"no AWS AMI with {framework.name} supports {candidate.name}: requirements.txt installs it when the job starts"
            if candidate.gpus and cpu_only(framework, candidate, self._catalogue):
                note += ", but it has no GPU build for these processors: the job will not use the GPU"
            return self._first(
                base_rows(candidate, self._catalogue),
                candidate,
                "requirements.txt installs the framework",
                note,
            )
        raise self._no_framework(framework, candidate, rows)

    def _requirement(self, chosen: ChosenAmi) -> str | None:
        """The framework's version that the job names, or else the one in the image, as in `torch==2.9`; None if unknown."""
        framework = self._framework
        name = FRAMEWORKS.get(framework.name) if framework is not None else None
        if framework is None or name is None:
            return None
        version = framework.version or (chosen.row.version if chosen.row is not None else "")
        return f"{name}=={version}" if version else None

    def _own_environment(self, framework: Framework, candidate: Candidate) -> ChosenAmi | None:
        """An image without a framework, for a version that no image has; None if its environment cannot be planned."""
        environment = own_environment(framework, candidate, self._catalogue)
        if environment is None:
            return None
        note = (
            f"AWS has no AMI with {framework.name} {framework.version} for {candidate.name}: uv installs "
            f"{' and '.join(environment.packages)} for Python {environment.python} when the job starts"
        )
        chosen = self._first(base_rows(candidate, self._catalogue), candidate, framework.because, note)
        return replace(chosen, environment=environment)

    def _first(self, rows: AmiRows, candidate: Candidate, because: str, note: str | None = None) -> ChosenAmi:
        """The first of the AMIs that exists in the region."""
        for row in rows.rows:
            found = self._look_up(row)
            if found is not None:
                unlisted = unlisted_family(row, candidate, self._catalogue)
                return ChosenAmi(
                    id=found.id,
                    name=found.name or row.name_pattern.rstrip("*").rstrip(),
                    because=because,
                    arch=row.arch,
                    row=row,
                    pythons=_PYTHONS.get(row.framework, ()),
                    root_device=found.root_device or _root_device(row),
                    snapshot_gb=found.snapshot_gb,
                    other_devices=found.other_devices,
                    note="; ".join(filter(None, (note, unlisted))) or None,
                )
        raise self._none_found(rows, candidate)

    def _own_ami(self, own: str, candidate: Candidate) -> ChosenAmi:
        arch = candidate.instance.arch if candidate.instance is not None else ""
        name = FRAMEWORKS.get(self._framework.name, "") if self._framework is not None else ""
        pythons = _PYTHONS.get(name, ())
        try:
            described = self._aws.image(own)
        except AwsRefused as refused:
            if not refused.is_permission:
                raise
            note = f"{own} was not checked: ec2:DescribeImages is not allowed"
            return ChosenAmi(own, "", "the job's own", arch, pythons=pythons, note=note)
        if described is None:
            raise InvalidJob(
                f"There is no AMI {own} in {self._aws.region} that you may use.",
                remedy=f"aws ec2 describe-images --image-ids {own}; the id of an AMI differs between regions.",
            )
        image = _image(described)
        if arch and image.arch and arch != image.arch:
            raise InvalidJob(
                f"The AMI {own} is for {image.arch}, and {candidate.name} has {arch} processors.",
                remedy="Use an AMI of the same architecture, or another instance type.",
            )
        return ChosenAmi(
            own,
            image.name,
            "the job's own",
            image.arch or arch,
            pythons=pythons,
            root_device=image.root_device or "/dev/sda1",
            snapshot_gb=image.snapshot_gb,
            other_devices=image.other_devices,
        )

    def _look_up(self, row: Ami) -> _Image | None:
        """The newest AMI of a row in the region; None if there is none."""
        if row.name_pattern not in self._looked_up:
            self._looked_up[row.name_pattern] = self._from_parameter(row) or self._by_name(row)
        return self._looked_up[row.name_pattern]

    def _from_parameter(self, row: Ami) -> _Image | None:
        if not row.ssm_parameter:
            return None
        try:
            found = self._aws.parameter(row.ssm_parameter)
        except AwsRefused as refused:
            if refused.is_permission:
                return None  # the AMI is found by its name
            raise
        if found is None:
            return None
        try:
            described = self._aws.image(found)
        except AwsRefused as refused:
            if refused.is_permission:
                return _Image(found)
            raise
        return None if described is None else _image(described)

    def _by_name(self, row: Ami) -> _Image | None:
        try:
            described = self._aws.newest_image(row.name_pattern, row.arch)
        except AwsRefused as refused:
            if not refused.is_permission:
                raise
            raise AwsRefused(
                f"{refused.message} GPUproof finds AMIs by their parameters (ssm:GetParameter) or by their names "
                "(ec2:DescribeImages).",
                refused.remedy,
                code=refused.code,
                operation=refused.operation,
                request_id=refused.request_id,
                status=refused.status,
                aws_message=refused.aws_message,
            ) from refused
        return None if described is None else _image(described)

    def _framework_note(self, framework: Framework, rows: AmiRows) -> str | None:
        if framework.name == HUGGINGFACE:
            return "the AMI has PyTorch but not Transformers: requirements.txt must name it"
        if rows.version is not None:
            return (
                f"AWS has no AMI with {framework.name} {framework.version}, which requirements.txt pins: it is installed when "
                "the job starts"
            )
        return None

    def _is_required(self, framework: Framework) -> bool:
        """Whether requirements.txt names the framework."""
        package = _PACKAGES.get(FRAMEWORKS.get(framework.name, ""), re.escape(framework.name))
        try:
            text = (self._tree.root / "requirements.txt").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        return (
            re.search(rf"^[ \t]*{package}[ \t]*(?:\[|[=<>!~;@]|$)", text, re.MULTILINE | re.IGNORECASE)
            is not None
        )

    def _no_framework(self, framework: Framework, candidate: Candidate, rows: AmiRows) -> InvalidJob:
        what = f"{framework.name} {framework.version or ''}".strip()
        return no_image(
            f"The catalogue knows no AWS Deep Learning AMI with {what} for {candidate.name}.",
            candidate,
            self._catalogue,
            self._aws.region,
            rejected=rows.rejected or base_rows(candidate, self._catalogue).rejected,
            framework=framework,
            versions=_versions(framework, candidate, self._catalogue),
        )

    def _none_found(self, rows: AmiRows, candidate: Candidate) -> InvalidJob:
        names = ", ".join(row.name_pattern for row in rows.rows[:_SHOWN])
        if not names:
            return no_image(
                f"The catalogue knows no AWS Deep Learning AMI for {candidate.name}.",
                candidate,
                self._catalogue,
                self._aws.region,
                rejected=rows.rejected,
            )
        ended = any(row.python for row in rows.rows)
        return InvalidJob(
            f"{self._aws.region} has no AMI for {candidate.name} of these names: {names}."
            + (f" AWS's newer ones no longer list {candidate.name.partition('.')[0]}." if ended else ""),
            remedy="Use another instance type, another region (--region), or choose an AMI (ec2: ami).",
        )


def _versions(framework: Framework, candidate: Candidate, catalogue: Catalogue) -> list[str]:
    any_version = Framework(framework.name, None, framework.because)
    rows = framework_rows(any_version, candidate, catalogue).rows
    return sorted({row.version for row in rows}, key=version_key, reverse=True)


def _image(described: dict[str, Any]) -> _Image:
    root = described.get("RootDeviceName", "")
    # Instance store volumes have no size: they end with the instance.
    volumes = {
        mapping.get("DeviceName", ""): mapping["Ebs"].get("VolumeSize", 0)
        for mapping in described.get("BlockDeviceMappings", ())
        if "Ebs" in mapping
    }
    return _Image(
        described["ImageId"],
        described.get("Name", ""),
        root,
        volumes.get(root, 0),
        described.get("Architecture", ""),
        tuple(name for name in volumes if name != root),
    )


def _root_device(row: Ami) -> str:
    return next(
        (device for system, device in _ROOT_DEVICES.items() if row.os.startswith(system)), "/dev/sda1"
    )


def driver_need(requirement: str, arch: str, catalogue: Catalogue) -> DriverNeed | None:
    """The oldest driver for `torch==2.9`; None if it is unknown, or if no GPU build exists.

    The version's builds for several CUDA versions are not told apart: the least demanding one counts, so that no driver is
    rejected that may be new enough.
    """
    parsed = parse_requirement(requirement)
    if parsed is None or not parsed[1]:
        return None
    framework, version, _ = parsed
    needs: list[DriverNeed] = []
    for build in catalogue.tables.builds:
        if (build.framework, build.version, build.arch) != (
            framework,
            version,
            arch,
        ) or build.device == "cpu":
            continue
        floor = catalogue.driver_floor(build.cuda) if build.cuda else None
        if floor is None:
            return None
        needs.append(DriverNeed(floor.minimum, f"{framework} {version} (CUDA {build.cuda})"))
    return min(needs, key=lambda need: version_key(need.driver), default=None)


def cuda_need(cuda: str, catalogue: Catalogue) -> DriverNeed | None:
    """The oldest driver for a container image with a version of CUDA; None if that is unknown."""
    floor = catalogue.driver_floor(cuda) if cuda else None
    return None if floor is None else DriverNeed(floor.minimum, f"the image's CUDA {cuda}")
