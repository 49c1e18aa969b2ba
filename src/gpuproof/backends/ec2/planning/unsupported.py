"""Why no machine image of the catalogue runs a job on an instance type, or why one may not; and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof.backends.ec2.planning.ami_rows import base_rows
from gpuproof.backends.remote.planning.framework import Framework
from gpuproof.backends.remote.planning.instance_search import Candidate, list_alternatives
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.builds import FRAMEWORKS
from gpuproof.catalogue.model import Ami, Gpu
from gpuproof.errors import InvalidJob

_SHOWN = 4
_NVIDIA = "NVIDIA"
_PROPRIETARY = "proprietary"


def no_image(
    message: str,
    candidate: Candidate,
    catalogue: Catalogue,
    region: str,
    *,
    rejected: Sequence[str],
    framework: Framework | None = None,
    versions: Sequence[str] = (),
) -> InvalidJob:
    """The error of a job for whose instance type the catalogue has no machine image.

    Args:
        region: where the job runs, for alternatives.
        rejected: why images of the catalogue were left out.
        framework: what the image must have; None for none.
        versions: of the framework, that images for the type have.
    """
    reasons = [*_facts(candidate, catalogue, framework), *rejected][:_SHOWN]
    text = "".join(f"\n  {reason}" for reason in reasons)
    return InvalidJob(f"{message}{text}", remedy=_remedy(candidate, catalogue, region, framework, versions))


def cpu_only(framework: Framework, candidate: Candidate, catalogue: Catalogue) -> bool:
    """Whether all of a framework's builds for the processors of an instance type are for CPUs."""
    name, instance = FRAMEWORKS.get(framework.name), candidate.instance
    if instance is None:
        return False
    builds = [
        build for build in catalogue.tables.builds if (build.framework, build.arch) == (name, instance.arch)
    ]
    return bool(builds) and all(build.device == "cpu" for build in builds)


def unlisted_family(row: Ami, candidate: Candidate, catalogue: Catalogue) -> str | None:
    """A warning if AWS's lists of instance types name a family for no image like this one, whose own list is unknown."""
    instance = candidate.instance
    if row.families or instance is None or not instance.gpu_count:
        return None
    like = [
        ami for ami in catalogue.tables.amis if (ami.arch, ami.kernel_module) == (row.arch, row.kernel_module)
    ]
    if row.framework:
        like = [ami for ami in like if ami.framework == row.framework]
    known = {family for ami in like for family in ami.families}
    if not known or instance.family in known:
        return None
    what = f"AMIs with {row.framework}" if row.framework else "AMIs"
    return (
        f"AWS's lists of supported types name {instance.family} for none of its {what} that the catalogue knows; if the "
        "driver does not see the GPU, the run fails before the script starts (ec2: ami chooses another)"
    )


def compiled_at_start(requirement: str, candidate: Candidate, catalogue: Catalogue) -> str | None:
    """A warning if a framework's version has no machine code for the GPU, which the driver then compiles on each new instance.

    Args:
        requirement: such as `torch==2.9`.
    """
    instance, gpu = candidate.instance, _gpu(candidate, catalogue)
    build = catalogue.build(requirement, instance.arch) if instance is not None else None
    if build is None or gpu is None:
        return None
    support = catalogue.runs_on(build, gpu)
    return f"{support.reason.rstrip('.')}, and is billed" if support.kind == "ptx" else None


def _facts(candidate: Candidate, catalogue: Catalogue, framework: Framework | None) -> list[str]:
    """What the catalogue knows about the type itself."""
    instance, gpu = candidate.instance, _gpu(candidate, catalogue)
    if instance is None:
        return []
    found: list[str] = []
    if instance.status == "retired":
        found.append(f"{candidate.name} is no longer available according to the catalogue")
    if gpu is not None and gpu.vendor != _NVIDIA:
        found.append(
            f"{gpu.name} is a GPU of {gpu.vendor}: the CUDA builds of TensorFlow and PyTorch do not run on it"
        )
    elif gpu is not None and gpu.kernel_module == _PROPRIETARY:
        last = f", of driver {gpu.driver_last} or older" if gpu.driver_last is not None else ""
        found.append(f"{gpu.name} needs NVIDIA's proprietary kernel module{last}")
    if framework is not None and cpu_only(framework, candidate, catalogue):
        found.append(f"{framework.name} has no GPU build for {instance.arch}")
    return found


def _remedy(
    candidate: Candidate,
    catalogue: Catalogue,
    region: str,
    framework: Framework | None,
    versions: Sequence[str],
) -> str:
    gpu = _gpu(candidate, catalogue)
    ways: list[str] = []
    if framework is not None and framework.pinned and versions:
        ways.append(f"use another version, such as {', '.join(versions[:_SHOWN])} (--framework-version)")
    if (
        framework is not None
        and not cpu_only(framework, candidate, catalogue)
        and base_rows(candidate, catalogue).rows
    ):
        ways.append("name the package in requirements.txt")
    if gpu is None or gpu.vendor == _NVIDIA:
        is_old = gpu is not None and gpu.kernel_module == _PROPRIETARY
        needs = " with such a driver, the AWS CLI and Python 3.9 or later" if is_old else ""
        ways.append(f"choose an AMI{needs} (ec2: ami)")
    ways.append("use another instance type")
    text = f"{', '.join(ways[:-1])}, or {ways[-1]}" if len(ways) > 1 else ways[0]
    # Those of a type with other processors have the same processors.
    is_useful = framework is None or not cpu_only(framework, candidate, catalogue)
    others = list_alternatives(candidate.name, None, catalogue, region) if is_useful else ""
    return f"{text[:1].upper()}{text[1:]}{f':{chr(10)}{others}' if others else '.'}"


def _gpu(candidate: Candidate, catalogue: Catalogue) -> Gpu | None:
    model = candidate.instance.gpu_model if candidate.instance is not None else None
    return catalogue.gpu(model) if model else None
