"""Finds the Dockerfile that builds the image of a container: by Compose, or by a `docker build` of the project."""

from __future__ import annotations

import os
from pathlib import Path

from gpuproof.linter.analysis.workspace import Workspace
from gpuproof.linter.jobs.commands.docker_run import docker_build
from gpuproof.linter.jobs.commands.unit_commands import unit_commands
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.source.project_root import launch_folders
from gpuproof.linter.source.span import Unit


def built_by(job: JobDefinition, workspace: Workspace) -> Unit | None:
    """The Dockerfile of a container's image; None if it is not certain which one that is."""
    written = job.argument("dockerfile").text
    if written is not None:
        # Relative to the file, or to where the program runs.
        places = [base / written for base in launch_folders(job.span.unit.absolute)]
        return next((unit for place in places if (unit := workspace.text_file(place)) is not None), None)
    name = _plain(job.image.text or job.image.prefix)
    if not name:
        return None
    builds = _builds(job, workspace)
    exact = {path for tag, path in builds if tag == job.image.text}
    if not exact and any(
        _plain(tag) == name and _is_other_tag(tag, job.image.text or "") for tag, _ in builds
    ):
        return None
    found = exact or {path for tag, path in builds if _plain(tag) == name}
    return workspace.text_file(found.pop()) if len(found) == 1 else None


def _is_other_tag(built: str, run: str) -> bool:
    """Whether one name has two tags, which say that the images differ: `ocr:2.1-cpu` and `ocr:2.1-cu124`."""
    tags = [name.rpartition("/")[2].partition(":")[2] for name in (built, run)]
    return all(tags) and tags[0] != tags[1] and "-" in tags[0]


def only_recipe(job: JobDefinition, workspace: Workspace) -> Unit | None:
    """The only Dockerfile of a job's project, or the only one in a folder with the name of its image."""
    roots = launch_folders(job.span.unit.absolute)
    found = [unit for unit in workspace.units_of("dockerfile") if unit.absolute.is_relative_to(roots[-1])]
    name = _plain(job.image.text or "")
    named = [unit for unit in found if unit.absolute.parent.name == name]
    if len(named) == 1:
        return named[0]
    return found[0] if len(found) == 1 else None


def public_image_name(job: JobDefinition) -> bool:
    """Whether a job's image has the name of a public one: without a registry, and not built here."""
    name = job.image.text or ""
    registry = name.partition("/")[0]
    return (
        bool(name)
        and "." not in registry
        and ":" not in registry
        and "$" not in name
        and name.count("/") < 2
        and (name.startswith(_PUBLIC))
    )


_PUBLIC = (
    "pytorch/",
    "tensorflow/",
    "nvidia/",
    "vllm/",
    "rayproject/",
    "huggingface/",
    "python:",
    "ubuntu",
    "jupyter/",
)


def _plain(name: str) -> str:
    """An image without its tag, and without the registry that it is pushed to."""
    # The tag may be a variable: `lung:$(date +%Y)`.
    repository = name.partition("@")[0].partition(":$")[0]
    last = repository.rpartition("/")[2].partition(":")[0]
    return "" if "$" in last else last


def _builds(job: JobDefinition, workspace: Workspace) -> list[tuple[str, Path]]:
    """The images that the shell scripts and Makefiles next to a job's file build, with their Dockerfiles."""
    unit = job.span.unit
    return workspace.cached("builds of images", unit, lambda: _find_builds(unit, workspace))


def _find_builds(unit: Unit, workspace: Workspace) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    folders = set(launch_folders(unit.absolute))
    for other in workspace.units_of("shell", "makefile"):
        if other.absolute.parent not in folders or "build" not in other.source:
            continue
        for command in unit_commands(other):
            build = docker_build(command)
            if build is None or "$" in build.file:
                continue
            # Relative to where the command runs, mostly the folder of the file or the root of the project.
            places = [Path(os.path.normpath(base / build.file)) for base in launch_folders(other.absolute)]
            path = next((place for place in places if workspace.exists(place)), places[0])
            found += [(tag, path) for tag in build.tags if _plain(tag)]
    for other in workspace.units_of("compose"):
        if other.absolute.parent in folders:
            found += _of_compose(other)
    return found


def _of_compose(unit: Unit) -> list[tuple[str, Path]]:
    from gpuproof.linter.jobs.readers import docker  # yaml: only where such a file is

    return [
        (job.image.text or "", Path(os.path.normpath(unit.absolute.parent / path)))
        for job in docker.jobs_of_compose(unit)
        if (path := job.argument("dockerfile").text) is not None and _plain(job.image.text or "")
    ]
