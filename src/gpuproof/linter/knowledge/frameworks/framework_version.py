"""The version of PyTorch or TensorFlow that a script runs on: of its jobs, their images, or a pin in the project."""

from __future__ import annotations

import re
from typing import Literal

from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.images import image_name
from gpuproof.linter.knowledge.version_pins import pinned_versions
from gpuproof.linter.project import Project

Framework = Literal["pytorch", "tensorflow"]
Ternary = Literal["yes", "no", "unknown"]

_PACKAGES = {"pytorch": ("torch",), "tensorflow": ("tensorflow", "tensorflow-gpu", "tensorflow-cpu")}
_IMAGES = {"pytorch": "torch", "tensorflow": "tensorflow"}


def framework_is_at_least(module: Module, project: Project, framework: Framework, version: str) -> Ternary:
    """Whether a script runs on this version of a framework or newer (`yes`) or on an older one (`no`).

    The version is the job's `framework_version` or that of its image, or else a pin in the project; a lower bound
    (`>=2.17`) can only be `yes`.
    """
    # Rules about the arguments of calls ask this for each call.
    memo = module.derived(_Answers).found
    key = (id(project), framework, version)
    if key not in memo:
        memo[key] = _is_at_least(module, project, framework, version)
    return memo[key]


class _Answers:
    def __init__(self, _: Module) -> None:
        self.found: dict[tuple[int, Framework, str], Ternary] = {}


def _is_at_least(module: Module, project: Project, framework: Framework, version: str) -> Ternary:
    jobs = project.jobs_running(module)
    versions = [_version(job, framework) for job in jobs if _has(job, framework)]
    if versions:
        if any(text is None for text in versions):
            return "unknown"
        answers = {is_not_below(str(text), version) for text in versions}
        return ("yes" if answers.pop() else "no") if len(answers) == 1 else "unknown"
    pins = pinned_versions(module.unit)
    constraint = next((pins[package] for package in _PACKAGES[framework] if package in pins), "")
    for part in constraint.split(","):
        match = re.fullmatch(r"\s*(===?|~=|>=|>|<=|<)\s*([\d.]+)[\w.*]*\s*", part)
        if match is None:
            continue
        sign, text = match.groups()
        above = is_not_below(text.strip("."), version)
        if sign in ("==", "===", "~="):
            return "yes" if above else "no"
        if sign.startswith(">") and above:
            return "yes"
        if (sign.startswith("<") and not above) or (sign == "<" and is_not_below(version, text)):
            return "no"
    return "unknown"


def is_not_below(text: str, version: str) -> bool:
    """Whether one version is another or newer, by major and minor version."""
    given, other = ([int(part) for part in re.findall(r"\d+", each)][:2] for each in (text, version))
    return [*given, 0, 0][:2] >= [*other, 0, 0][:2]


def _has(job: JobDefinition, framework: Framework) -> bool:
    return (
        job.framework == framework or _in_image(job, framework) is not None or _of_huggingface(job, framework)
    )


def _version(job: JobDefinition, framework: Framework) -> str | None:
    if _of_huggingface(job, framework):
        return job.argument(f"{framework}_version").text
    return _in_image(job, framework) or job.framework_version.text


def _of_huggingface(job: JobDefinition, framework: Framework) -> bool:
    return job.framework == "huggingface" and not job.argument(f"{framework}_version").is_absent


def _in_image(job: JobDefinition, framework: Framework) -> str | None:
    """The framework's version in a job's own image, if it is one of AWS's."""
    image = image_name(job.image)
    if image is None or _IMAGES[framework] not in (image.framework, image.framework_below):
        return None
    return image.version
