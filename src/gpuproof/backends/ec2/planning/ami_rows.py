"""Selects the Deep Learning AMIs of the catalogue that suit a job's framework and an instance type's GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuproof.backends.ec2.target import DriverNeed
from gpuproof.backends.remote.planning.framework import Framework
from gpuproof.backends.remote.planning.instance_search import Candidate
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.builds import FRAMEWORKS
from gpuproof.catalogue.drivers import gpu_mismatch
from gpuproof.catalogue.images import HUGGINGFACE
from gpuproof.catalogue.model import Ami, Gpu
from gpuproof.util.versions import version_key

TORCH = "torch"
_OLD_SYSTEMS = ("amzn2", "ubuntu20.04")
"""Their own Python is older than 3.9, which the program on the host requires, and their C library older than what current
wheels of frameworks require (glibc 2.26 and 2.31): with another Python, they run containers."""

_UNTRIED_SYSTEMS = ("ubuntu26.04",)
"""Systems on which the program on the host has not run yet, with Python 3.14; taken if a job needs what only they have."""
_DEFAULT_ARCH = "x86_64"
_OPEN = "open"


@dataclass(frozen=True)
class AmiRows:
    """The catalogue's AMIs for an instance type.

    Args:
        rows: in order of preference; the first that exists in the region is taken.
        rejected: why others were left out, one sentence each.
        version: the version of the framework that differs from the requested one; None if it is the requested one.
    """

    rows: tuple[Ami, ...]
    rejected: tuple[str, ...] = ()
    version: str | None = None


def framework_rows(framework: Framework, candidate: Candidate, catalogue: Catalogue) -> AmiRows:
    """The AMIs with a framework.

    A version that only requirements.txt pins is preferred but not required: pip installs it on the instance.
    """
    name = TORCH if framework.name == HUGGINGFACE else FRAMEWORKS.get(framework.name)
    fitting = [row for row in _base(candidate, catalogue) if name is not None and row.framework == name]
    # The version of `huggingface` is that of Transformers, which no AMI contains.
    wanted = None if framework.name == HUGGINGFACE else framework.version
    rows, rejected = _usable(fitting, candidate, catalogue)
    rows = sorted(rows, key=_preference, reverse=True)
    exact = [row for row in rows if wanted is None or _is_version(row.version, wanted)]
    if exact or framework.pinned:
        return AmiRows(tuple(exact), rejected)
    return AmiRows(tuple(rows), rejected, rows[0].version if rows else None)


def base_rows(
    candidate: Candidate, catalogue: Catalogue, need: DriverNeed | None = None, *, container: bool = False
) -> AmiRows:
    """The AMIs with a driver but without a framework.

    Args:
        need: the oldest driver; AMIs whose driver is unknown are kept.
        container: whether the job runs in a container, which brings its own system.
    """
    fitting = [row for row in _base(candidate, catalogue) if not row.framework]
    rows, rejected = _usable(fitting, candidate, catalogue, container=container)
    kept = [row for row in rows if need is None or not row.driver or _is_new_enough(row.driver, need)]
    old = [
        f"{row.name_pattern.rstrip('*')}: {need.because} needs driver {need.driver} or later, and the AMI has {row.driver}"
        for row in rows
        if need is not None and row not in kept
    ]
    return AmiRows(tuple(sorted(kept, key=_preference, reverse=True)), (*rejected, *old))


def _is_new_enough(driver: str, need: DriverNeed) -> bool:
    return version_key(driver) >= version_key(need.driver)


def _base(candidate: Candidate, catalogue: Catalogue) -> Sequence[Ami]:
    """All AMIs that boot on the type; those for GPUs of the open kernel module if it has no GPU or is unknown."""
    instance = candidate.instance
    if instance is not None and instance.gpu_count:
        return catalogue.amis(instance.ec2_type)
    arch = instance.arch if instance is not None else _DEFAULT_ARCH
    return [row for row in catalogue.tables.amis if row.arch == arch and row.kernel_module == _OPEN]


def _usable(
    rows: Sequence[Ami], candidate: Candidate, catalogue: Catalogue, *, container: bool = False
) -> tuple[list[Ami], tuple[str, ...]]:
    model = candidate.instance.gpu_model if candidate.instance is not None else None
    gpu = catalogue.gpu(model) if model else None
    kept: list[Ami] = []
    rejected: dict[str, None] = {}
    for row in rows:
        problem = _problem(row, gpu, catalogue, container=container)
        if problem is None:
            kept.append(row)
        else:
            rejected[problem] = None
    return kept, tuple(rejected)


def _problem(row: Ami, gpu: Gpu | None, catalogue: Catalogue, *, container: bool) -> str | None:
    """Why an AMI cannot run the job on a GPU; None if nothing is known against it."""
    name = row.name_pattern.rstrip("*")
    if row.os in _OLD_SYSTEMS and not row.python:
        return f"{name}: its Python is older than 3.9"
    if row.os in _OLD_SYSTEMS and not container:
        return f"{name}: its system is too old for the frameworks' wheels, but a container runs on it (ec2: {{container: true}})"
    if gpu is None:
        return None
    match gpu_mismatch(row.driver, gpu):
        case "too-new":
            return f"{name}: its driver {row.driver} no longer supports {gpu.name}"
        case "too-old":
            return f"{name}: its driver {row.driver} does not support {gpu.name} yet"
        case None:
            pass
    if not row.framework:
        return None
    build = catalogue.build(f"{row.framework}=={row.version}", row.arch)
    if build is None:
        return None
    support = catalogue.runs_on(build, gpu)
    if support.kind == "no":
        return f"{name}: {support.reason.rstrip('.')}"
    floor = catalogue.driver_floor(build.cuda) if build.cuda else None
    if row.driver and floor is not None and not floor.allows(row.driver):
        return f"{name}: {build} needs driver {floor.minimum} or later, and the AMI has {row.driver}"
    return None


def _preference(row: Ami) -> tuple[bool, tuple[int, ...], bool, bool, tuple[int, ...]]:
    """A system that has been tried, the newest framework, an AMI with a parameter, and the newest Ubuntu, whose Python is newer
    than Amazon Linux's."""
    digits = "".join(character if character.isdigit() else "." for character in row.os).strip(".")
    framework = version_key(row.version) if row.version else ()
    tried = row.os not in _UNTRIED_SYSTEMS
    return tried, framework, bool(row.ssm_parameter), row.os.startswith("ubuntu"), version_key(digits)


def _is_version(of_ami: str, wanted: str) -> bool:
    # Patch releases of frameworks are compatible, and AWS has one line of AMIs per minor version.
    return of_ami.split(".")[:2] == wanted.partition("+")[0].split(".")[:2]
