"""What a Dockerfile builds: its base, the packages that it installs, and the jobs that use its image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.linter.jobs.commands.dockerfile import Stage, read_stages
from gpuproof.linter.jobs.commands.shell import Shell, commands
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.containers.installs import Installation, installation
from gpuproof.linter.knowledge.containers.public_images import PublicImage, public_image
from gpuproof.linter.knowledge.distribution.required_gpu import line_that_needs_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.source.span import Span, Unit


class Recipe(NamedTuple):
    """The last stage of a Dockerfile.

    Attributes:
        base: the image that the stage builds on, through earlier stages; None if it is not a known public one.
    """

    unit: Unit
    stage: Stage
    base: PublicImage | None

    @property
    def base_span(self) -> Span:
        """The position of the base image."""
        first = self.stage.base
        return self.unit.span(first.line, first.column, first.line, first.end_column)

    def installations(self) -> Iterator[tuple[Installation, Stage]]:
        """What the instructions of the image install, in their order.

        Arguments of the build are unknown: another command line may set them.
        """
        arguments = {
            word.partition("=")[0]
            for instruction in self.stage.all_instructions()
            if instruction.name == "ARG"
            for word in instruction.value.split()
        }
        for stage in self.stage.chain:
            for instruction in stage.instructions:
                if instruction.name != "RUN" or instruction.value.startswith("["):
                    continue
                known = {name: text for name, text in instruction.variables.items() if name not in arguments}
                for command in commands(instruction.text, Shell(known)):
                    if (found := installation(command)) is not None:
                        yield found, stage


def read_recipe(unit: Unit) -> Recipe | None:
    """The image that a Dockerfile builds; None for other files."""
    if unit.kind != "dockerfile":
        return None
    stages = read_stages(unit.source)
    if not stages:
        return None
    return Recipe(unit, stages[-1], public_image(stages[-1].base.image))


def users(unit: Unit, project: Project) -> list[JobDefinition]:
    """The jobs that run the image of a Dockerfile."""
    return [job for job in project.jobs if job.recipe is unit or job.span.unit is unit]


def gpu_evidence(unit: Unit, project: Project) -> str | None:
    """Why an image is for GPUs, as a clause: a job with GPUs runs it, or its script fails without one; None without a reason."""
    jobs = users(unit, project)
    for job in jobs:
        if gpus_per_host(project, job):
            return f"{job.title} runs it with {'a GPU' if gpus_per_host(project, job) == 1 else 'GPUs'}"
    for job in jobs:
        if job.script is not None and (line := line_that_needs_gpu(job.script)):
            return f"`{job.script_title}` requires a GPU in line {line}"
    return None
