"""The instances on which the image of a Dockerfile runs: those of its jobs, and EC2 instances whose user data starts it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.catalogue.model import Instance
from gpuproof.linter.jobs.commands.docker_run import docker_run
from gpuproof.linter.jobs.commands.shell import Shell, commands
from gpuproof.linter.jobs.resources import find_resources, may_have_resources
from gpuproof.linter.knowledge.aws import amis
from gpuproof.linter.knowledge.aws.instances import find_instance
from gpuproof.linter.knowledge.aws.user_data import user_data_of
from gpuproof.linter.knowledge.containers.public_images import public_image
from gpuproof.linter.knowledge.containers.recipes import users
from gpuproof.linter.project import Project
from gpuproof.linter.source.project_root import launch_folders
from gpuproof.linter.source.span import Unit

_KINDS = ("shell", "makefile", "terraform", "cloudformation", "python", "typescript", "request")


class ImageHost(NamedTuple):
    """An instance that runs the image.

    Attributes:
        driver: the NVIDIA driver of its AMI; None if it is not known.
        title: what describes it, for messages.
    """

    instance: Instance
    driver: str | None
    title: str


def image_hosts(recipe: Unit, project: Project) -> Iterator[ImageHost]:
    """The instances with a GPU on which the image of a Dockerfile runs."""
    for job in users(recipe, project):
        instance = find_instance(project, job.instance_type) if job.instance_type.is_known else None
        if instance is not None and instance.gpu_count:
            yield ImageHost(instance, None, job.title)
    if len(project.workspace.units_of("dockerfile")) != 1:
        return
    root = launch_folders(recipe.absolute)[-1]
    for unit in project.workspace.units_of(*_KINDS):
        if unit.absolute.is_relative_to(root) and may_have_resources(unit):
            yield from _of_unit(unit, project)


def _of_unit(unit: Unit, project: Project) -> Iterator[ImageHost]:
    for resource in find_resources(unit, project.workspace):
        data = user_data_of(resource, project.workspace)
        instance = find_instance(project, data.instance_type) if data is not None else None
        if data is None or instance is None or not instance.gpu_count or not _runs_own_image(data.text):
            continue
        selected = amis.of_resource(resource)
        driver = amis.driver_of(selected, project) if selected is not None else None
        yield ImageHost(instance, driver, f"`{resource.title}` in {unit.path.rpartition('/')[2]}")


def _runs_own_image(text: str) -> bool:
    """Whether user data starts exactly one image, which is no public one."""
    if "docker" not in text:
        return False
    runs = [run for command in commands(text, Shell()) if (run := docker_run(command)) is not None]
    return len(runs) == 1 and public_image(runs[0].image) is None
