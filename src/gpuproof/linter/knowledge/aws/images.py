"""Container images of jobs: parsed image addresses, and the versions for which the SageMaker SDK has images."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.source.span import Span
from gpuproof.util.csv_table import read_rows

_HOST = r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/"
_NAME = r"(?P<repository>[a-z0-9][a-z0-9._/-]*)(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:\w+))?"
_WHOLE = re.compile(_HOST + _NAME)
_END = re.compile(r".*amazonaws\.com(?:\.cn)?/" + _NAME)
_ACCOUNT = re.compile(r"(\d{12})\.dkr\.ecr\.(?:([a-z0-9-]+)\.amazonaws\.com)?")
_CONTAINERS = re.compile(
    r"(tensorflow|pytorch|mxnet|autogluon|huggingface-(pytorch|tensorflow))(-trcomp)?-(training|inference)(-[a-z0-9-]+)?"
)
"""Repositories of AWS Deep Learning Containers; every tag has a version, and there is no `latest`."""


@dataclass(frozen=True)
class ImageName:
    """The parsed address of an image.

    Args:
        account, region: of the registry; empty if they come from a variable.
        repository, tag, digest: of the image; tag and digest are empty if they are not written.
        text: the whole address; empty if part of it is unknown.
        span: its position.
    """

    account: str
    region: str
    repository: str
    tag: str
    digest: str
    text: str
    span: Span | None

    @property
    def scope(self) -> str | None:
        """`training` or `inference`, by the name of the repository; None for other repositories."""
        match = _CONTAINERS.fullmatch(self.repository)
        return match[4] if match else None

    @property
    def device(self) -> str | None:
        """`cpu` or `gpu`, by the tag; None if the tag does not contain it."""
        words = set(re.split(r"[-_.]", self.tag))
        if "cpu" in words:
            return "cpu" if "gpu" not in words else None
        return "gpu" if "gpu" in words or self.cuda else None

    @property
    def cuda(self) -> str | None:
        """The CUDA version in the tag: `11.2` of `cu112`."""
        match = re.search(r"(?:^|-)cu(\d{2})(\d)(?:-|$)", self.tag)
        return f"{match[1]}.{match[2]}" if match else None

    @property
    def framework(self) -> str | None:
        """`torch` or `tensorflow`, by the repository; None for others."""
        if not _CONTAINERS.fullmatch(self.repository) or self.repository.startswith("huggingface"):
            return None
        return {"pytorch": "torch", "tensorflow": "tensorflow"}.get(self.repository.partition("-")[0])

    @property
    def framework_below(self) -> str | None:
        """`torch` or `tensorflow` below transformers in an image of Hugging Face; None for others."""
        match = re.match(r"huggingface-(pytorch|tensorflow)-", self.repository)
        return {"pytorch": "torch", "tensorflow": "tensorflow"}[match[1]] if match else None

    @property
    def version(self) -> str | None:
        """The framework version at the start of the tag."""
        match = re.match(r"\d+\.\d+(?:\.\d+)?", self.tag)
        return match[0] if match else None


def image_name(value: Value) -> ImageName | None:
    """Parse the image address in a value; None if it is not an address in ECR."""
    if value.text is not None:
        match = _WHOLE.fullmatch(value.text.strip())
        if match is None:
            return None
        return ImageName(
            match["account"],
            match["region"],
            match["repository"],
            match["tag"] or "",
            match["digest"] or "",
            value.text,
            value.span,
        )
    end = _END.fullmatch(value.suffix) if value.is_unknown else None
    if end is None:
        return None
    begin = _ACCOUNT.match(value.prefix)
    return ImageName(
        begin[1] if begin else "",
        (begin[2] or "") if begin else "",
        end["repository"],
        end["tag"] or "",
        end["digest"] or "",
        "",
        value.span,
    )


def is_aws_container(image: ImageName, project: Project) -> bool:
    """Whether an image is an AWS Deep Learning Container in a registry of AWS, not a copy in another registry."""
    if _CONTAINERS.fullmatch(image.repository) is None:
        return False
    return image.account in aws_accounts(project)


def aws_accounts(project: Project) -> frozenset[str]:
    """The accounts with the registries of AWS images."""
    return frozenset(registry.account for registry in project.catalogue.tables.registries.values())


def framework_and_cuda(job: JobDefinition, project: Project) -> tuple[str, str, str | None] | None:
    """The framework, version and CUDA version of a job's image, from its tag or from the image that the SDK selects.

    The CUDA version is None if unknown; the result is None if the framework version is not certain.
    """
    if job.image.is_absent and job.framework == "huggingface":
        return _of_huggingface(job, project)
    if job.image.is_absent:
        framework = {"pytorch": "torch", "tensorflow": "tensorflow"}.get(job.framework or "")
        version, name = job.framework_version, job.instance_type.text
        if framework is None or not version.is_known or not isinstance(version.text, str) or name is None:
            return None
        found = project.catalogue.image(framework, version.text, job.kind, name, project.region)
        return framework, version.text, (found.row.cuda or None) if found is not None else None
    image = image_name(job.image)
    framework = (image.framework or image.framework_below) if image is not None else None
    if image is None or framework is None or image.version is None or image.device != "gpu":
        return None
    return (framework, image.version, image.cuda) if is_aws_container(image, project) else None


def _of_huggingface(job: JobDefinition, project: Project) -> tuple[str, str, str | None] | None:
    """The framework below transformers in the image that the SDK selects for a Hugging Face job, and its CUDA version."""
    for framework, keyword in (("torch", "pytorch_version"), ("tensorflow", "tensorflow_version")):
        version = job.argument(keyword)
        if version.is_absent:
            continue
        transformers = job.framework_version
        if not version.is_known or version.text is None or not transformers.is_known:
            return None
        cuda = {
            row.cuda
            for row in project.catalogue.tables.huggingface_images
            if (row.framework, row.device, row.library) == (framework, "gpu", "transformers")
            and row.job == ("training" if job.kind == "training" else "inference")
            and _is_version(row.version, version.text)
            and _is_version(row.library_version, transformers.text or "")
        }
        return framework, version.text, cuda.pop() or None if len(cuda) == 1 else None
    return None


def _is_version(full: str, written: str) -> bool:
    """Whether a version is the one that is written, or of the series that is written: `1.13.1` of `1.13`."""
    return full == written or full.startswith(f"{written}.")


@dataclass(frozen=True)
class SdkVersion:
    """A framework version for which SageMaker SDK v2 has an image.

    Args:
        version: such as `2.11.0`.
        alias: a short form, such as `2.11`; empty without one.
        py_versions: such as (`py39`,); empty if the image does not depend on it.
    """

    version: str
    alias: str
    py_versions: tuple[str, ...]


@cache
def sdk_versions(framework: str, scope: str) -> tuple[SdkVersion, ...]:
    """The versions that SDK v2 accepts, oldest first.

    Args:
        framework: `pytorch` or `tensorflow`; the result is empty for others.
        scope: `training` or `inference`.
    """
    path = Path(__file__).parents[2] / "data" / "sdk_image_versions.csv"
    rows = [row for row in read_rows(path) if (row["framework"], row["scope"]) == (framework, scope)]
    return tuple(SdkVersion(row["version"], row["alias"], tuple(row["py_versions"].split())) for row in rows)


@dataclass(frozen=True)
class HuggingFaceVersions:
    """A pair of versions for which SageMaker SDK v2 has a Hugging Face image.

    Args:
        transformers: the version of transformers, and a short form of it, which may be empty.
        framework: that of PyTorch or TensorFlow, in the same forms.
        py_versions: such as (`py311`,).
    """

    transformers: tuple[str, str]
    framework: tuple[str, str]
    py_versions: tuple[str, ...]


@cache
def huggingface_versions(framework: str, scope: str) -> tuple[HuggingFaceVersions, ...]:
    """The pairs of versions that SDK v2 accepts for `HuggingFace` and `HuggingFaceModel`, oldest first.

    Args:
        framework: `pytorch` or `tensorflow`.
        scope: `training` or `inference`.
    """
    path = Path(__file__).parents[2] / "data" / "huggingface_image_versions.csv"
    return tuple(
        HuggingFaceVersions(
            (row["transformers"], row["transformers_alias"]),
            (row["version"], row["alias"]),
            tuple(row["py_versions"].split()),
        )
        for row in read_rows(path)
        if (row["framework"], row["scope"]) == (framework, scope)
    )
