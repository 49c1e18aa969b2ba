"""The Dockerfile replaces the framework of its base image, or installs two versions of it one after the other.

`pytorch/pytorch:2.4.0-cuda12.1` already has torch 2.4.0 for CUDA 12.1. `pip install torch==2.1.0`, or `--upgrade torch`,
downloads two to five gigabytes, leaves both copies in the image, since layers only grow, and may bring another version of CUDA than other packages (torchvision, flash-attn, apex) were built for. A pin in requirements.txt does the same.

Bad: another version than the base has

    # file: Dockerfile
    FROM pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime
    RUN pip install --no-cache-dir torch==2.1.0 transformers  # <-

Bad: the pin is in requirements.txt

    # file: Dockerfile
    FROM pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime
    COPY requirements.txt /tmp/requirements.txt
    RUN pip install -r /tmp/requirements.txt  # <-
    # file: requirements.txt
    torch==2.2.1
    transformers==4.44.0

Bad: two versions

    # file: Dockerfile
    FROM nvidia/cuda:12.1.1-cudnn8-runtime-ubuntu22.04
    RUN apt-get update && apt-get install -y python3-pip
    RUN pip3 install torch==2.4.0 --index-url https://download.pytorch.org/whl/cu121
    RUN pip3 install torch==2.3.1 lightning  # <-

Good:

    # file: Dockerfile
    FROM pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime
    RUN pip install --no-cache-dir transformers

Quiet: the version of the base, a range that it satisfies, and a name without a version

    # file: Dockerfile
    FROM pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime
    RUN pip install torch==2.4.0 && pip install "torch>=2.1" accelerate && pip install torch

Quiet: another environment

    # file: Dockerfile
    FROM pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime
    RUN python -m venv /old && /old/bin/pip install torch==1.13.1
    RUN conda create -n legacy pytorch=1.12 && conda run -n legacy pip install torch==1.12.1
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.findings import Severity
from gpuproof.linter.jobs.commands.unit_commands import span_of
from gpuproof.linter.knowledge.containers.installs import Installation
from gpuproof.linter.knowledge.containers.recipes import read_recipe
from gpuproof.linter.knowledge.containers.requirements_files import requirements_read
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Span, Unit

rule = Rule("DK104", "framework-installed-twice", Severity.WARNING, kinds=("dockerfile",))

_OWN_ENVIRONMENT = re.compile(r".*/bin/(pip|python)[\d.]*")
_SYSTEM = re.compile(r"/(usr|usr/local|opt/conda)/bin/\w+[\d.]*")
_ISOLATED = ("--target", "-t", "--prefix", "--root", "-n", "--name", "create", "-p", "run", "venv")


class _Pin(NamedTuple):
    """A version of a framework that an instruction installs.

    Attributes:
        shown: what installs it, for the message.
    """

    framework: str
    version: str
    span: Span
    shown: str
    upgrades: bool


@rule.unit
def check(unit: Unit, project: Project) -> Hits:
    if "install" not in unit.source:
        return
    recipe = read_recipe(unit)
    if recipe is None:
        return
    present: dict[str, tuple[str, str]] = {}
    base = recipe.base
    if base is not None and base.framework:
        version = "of NVIDIA" if base.name.startswith("nvcr.io/") else base.version
        present[base.framework] = (version, f"the base image `{base.name}` has")
    for installation, _ in recipe.installations():
        if installation.command.is_conditional or _is_isolated(installation):
            continue
        for pin in _pins(unit, installation, project):
            version, where = present.get(pin.framework, ("", ""))
            if where and (pin.upgrades or (version and pin.version and not _is_same(version, pin.version))):
                yield rule.hit(
                    pin.span,
                    f"{pin.shown} replaces {pin.framework}{f' {version}' if version else ''}, which {where}: "
                    "the image contains both, and only the second one runs.",
                    remedy="Install the version that you need once, or choose a base image that has it.",
                )
            if pin.version:
                present[pin.framework] = (pin.version, f"line {pin.span.line} installs")


def _pins(unit: Unit, installation: Installation, project: Project) -> Iterator[_Pin]:
    for package in installation.packages:
        if package.framework is None or not (package.pinned or package.replaces):
            continue
        span = span_of(unit, package.place, package.word)
        yield _Pin(package.framework, package.pinned, span, f"`{package.word}`", package.replaces)
    for name in installation.files:
        for requirement in requirements_read(unit, name, project.workspace):
            framework = {"torch": "torch", "tensorflow": "tensorflow"}.get(requirement.name)
            if framework is not None and requirement.pinned:
                place = installation.command.places[0]
                shown = f"`{requirement.text.partition('#')[0].strip()}` in {name.rpartition('/')[2]}"
                version = requirement.pinned.partition("+")[0]
                yield _Pin(framework, version, span_of(unit, place, name), shown, False)


def _is_isolated(installation: Installation) -> bool:
    """Whether a command installs into another environment than the base's."""
    words = installation.command.words
    own = any(_OWN_ENVIRONMENT.fullmatch(word) and not _SYSTEM.fullmatch(word) for word in words[:3])
    return own or any(word.partition("=")[0] in _ISOLATED for word in words)


def _is_same(present: str, wanted: str) -> bool:
    """Whether two versions are the same as far as both are written: `2.4` and `2.4.0`."""
    pairs = zip(present.split("."), wanted.split("."), strict=False)
    return all(have == want for have, want in pairs)
