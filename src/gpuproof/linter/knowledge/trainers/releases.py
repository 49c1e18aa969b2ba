"""The versions of Lightning, transformers, TRL and PEFT that run a script: pinned in the project, or of its job's image."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.images import image_name
from gpuproof.linter.knowledge.trainers.tables import (
    Lifetime,
    Presence,
    Version,
    VersionRange,
    newest,
    version,
)
from gpuproof.linter.knowledge.version_pins import listed_packages, pinned_versions
from gpuproof.linter.project import Project

_PACKAGES = {
    "lightning": ("lightning", "pytorch-lightning"),
    "transformers": ("transformers",),
    "trl": ("trl",),
    "peft": ("peft",),
}
_TITLES = {"lightning": "Lightning", "trl": "TRL", "peft": "PEFT"}
_PART = re.compile(r"\s*(===?|~=|>=|>|<=|<|!=)\s*([\d.]+)([\w.*+]*)\s*")
_IMAGE_TAG = re.compile(r"transformers(\d+\.\d+(?:\.\d+)?)")


class Removal(NamedTuple):
    """Why a script may not find a member of a library.

    Attributes:
        certain: whether every version that may run the script lacks it.
        known: whether anything says which version runs it.
        text: the versions, for messages: `transformers 4.57.1`, `Lightning 2.0.9 and newer`.
    """

    certain: bool
    known: bool
    text: str


def library_versions(module: Module, project: Project, library: str) -> VersionRange | None:
    """The versions of a library that may run a script; None if nothing says so.

    Exact pins come first, then the image of the jobs, then other constraints. A package that is listed without a version
    is the newest one.
    """
    title = _TITLES.get(library, library)
    pins = pinned_versions(module.unit)
    pin = next((pins[package] for package in _PACKAGES[library] if package in pins), "")
    found = constraint_range(pin, title) if pin else None
    if found is not None and found.low is not None and found.high is not None:
        return found
    if library == "transformers":
        images = {_of_image(job) for job in project.jobs_running(module)}
        images.discard(None)
        if len(images) == 1 and (text := images.pop()):
            return _exact(text, title)
        if images:
            return None
    if found is not None:
        return found
    listed = listed_packages(module.unit)
    if any(package in listed for package in _PACKAGES[library]):
        # Newer versions than those of the table may have anything.
        return VersionRange(version(newest(library)), None, f"the newest {title}", True)
    return None


def is_at_least(module: Module, project: Project, library: str, release: str) -> Presence:
    """Whether a script runs on this version of a library or a newer one."""
    versions = library_versions(module, project, library)
    if versions is None or versions.assumed:
        return "unknown"
    if versions.low is not None and versions.low >= version(release):
        return "yes"
    return "no" if versions.high is not None and versions.high <= version(release) else "unknown"


def unsure(module: Module, project: Project, library: str) -> Severity:
    """The severity of what fails with newer versions: a note if nothing says which version runs, or else a warning."""
    versions = library_versions(module, project, library)
    return Severity.NOTE if versions is None or versions.assumed else Severity.WARNING


def removal(lifetime: Lifetime, versions: VersionRange | None, library: str) -> Removal | None:
    """Why a script may not find a member; None if it certainly or probably does.

    Args:
        versions: of `library_versions`.
    """
    title = _TITLES.get(library, library)
    if versions is None or versions.assumed:
        if lifetime.gone_in is None:
            return None
        return Removal(False, False, f"{title} {_text(lifetime.gone_in)} and newer")
    match lifetime.presence(versions):
        case "no":
            return Removal(True, True, versions.text)
        case "unknown" if versions.high is None and lifetime.gone_in is not None:
            return Removal(False, True, f"{title} {_text(lifetime.gone_in)} and newer")
        case _:
            return None


def constraint_range(constraint: str, title: str) -> VersionRange | None:
    """The versions that a constraint such as `>=4.41,<5` allows; None if it cannot be read."""
    low: Version | None = None
    high: Version | None = None
    for part in constraint.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        sign, text, rest = match.groups()
        given = version(text)
        if not given or sign == "!=":
            continue
        is_prefix = rest.startswith("*") or text.endswith(".")
        match sign:
            case "==" | "===":
                low = given
                high = _bumped(given) if is_prefix else (*given, *(0,) * (3 - len(given)), 1)
            case "~=":
                low, high = given, _bumped(given[:-1] or given)
            case ">=" | ">":
                low = max(low or (), given)
            case _:
                bound = _bumped(given) if sign == "<=" else given
                high = min(high, bound) if high is not None else bound
    if low is None and high is None:
        return None
    exact = re.fullmatch(r"===?\s*([\d.]+)", constraint.strip())
    return VersionRange(
        low, high, f"{title} {exact[1]}" if exact else f"{title}{constraint.replace(' ', '')}"
    )


def _exact(text: str, title: str) -> VersionRange:
    given = version(text)
    high = _bumped(given) if len(given) < 3 else (*given, 1)
    return VersionRange(given, high, f"{title} {text}")


def _bumped(given: Version) -> Version:
    """The first version after those that start with these numbers."""
    return (*given[:-1], given[-1] + 1)


def _of_image(job: JobDefinition) -> str | None:
    """The version of transformers in the image of a job, empty if it has one that is unknown."""
    image = image_name(job.image)
    if image is not None:
        match = _IMAGE_TAG.search(image.tag)
        return match[1] if match else None
    if job.framework == "huggingface":
        return job.framework_version.text or ""
    return None


def _text(release: Version) -> str:
    return ".".join(map(str, release))
