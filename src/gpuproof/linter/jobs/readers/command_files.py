"""Finds what shell scripts, Makefiles and Dockerfiles start, where they are checked by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuproof.linter.analysis.values import Entries, Value, known
from gpuproof.linter.jobs.commands import files
from gpuproof.linter.jobs.commands.aws_cli import CliRequest, cli_requests
from gpuproof.linter.jobs.commands.follow import LinkEnd
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.readers import containers, docker, slurm
from gpuproof.linter.jobs.readers.boto3 import DOCUMENTS, OPERATIONS, request_jobs
from gpuproof.linter.source.span import Span, Unit


def jobs(unit: Unit) -> Iterator[JobDefinition]:
    """What a file of commands starts, as one job without an instance type."""
    line = 1
    match unit.kind:
        case "makefile":
            text = files.recipe(unit.source, None)
        case "dockerfile":
            image = files.image(unit.source)
            text, line = image.command, image.line
            if image.program is not None:
                text = f"python {image.program}"
            if text is not None:
                text = "\n" * (line - 1) + text
        case _:
            text = unit.source
            if "#SBATCH" in text:
                yield slurm.job(unit)
                return
    job = JobDefinition("training", "command", unit.path.rpartition("/")[2], unit.span(line))
    if text is None:
        missing = "it has neither ENTRYPOINT nor CMD" if unit.kind == "dockerfile" else "it has no target"
        yield replace(job, link_end=LinkEnd(missing))
    else:
        yield replace(job, command=known(text))


def requests(unit: Unit) -> Iterator[JobDefinition]:
    """The jobs that a file starts with the AWS CLI, and the containers that it starts with Docker."""
    if unit.kind in ("shell", "makefile"):
        yield from docker.jobs_of_commands(unit)
    for request in cli_requests(unit):
        if request.service == "sagemaker" and request.operation in OPERATIONS:
            for job in request_jobs(request.operation, request.members, _described_at(request)):
                yield replace(job, arguments={**job.arguments, "cli-region": request.region})
        elif request.service in ("batch", "ecs"):
            yield from containers.jobs_of_request(_lowered(request.members), request.span)


def _described_at(request: CliRequest) -> Span:
    """Where a request names its job: in the command, or in the file that it reads, which is checked on its own, too."""
    named = (value.span for name, value in request.members.parts.items() if name in DOCUMENTS)
    return next(
        (span for span in named if span is not None and span.unit is not request.span.unit), request.span
    )


def _lowered(request: Value) -> Value:
    """A request with the member names of Batch and ECS, which start in lower case."""
    lowered = Entries({f"{name[:1].lower()}{name[1:]}": value for name, value in request.parts.items()})
    return known(lowered, request.span)
