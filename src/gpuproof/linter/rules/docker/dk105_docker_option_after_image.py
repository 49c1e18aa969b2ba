"""An option of `docker run` is written after the image, where it is an argument of the program in the container.

`docker run IMAGE --gpus all python train.py` starts a container without a GPU: Docker's own options end at the image, so that the
container runs `--gpus` as its command, and fails with "exec: --gpus: executable file not found", or passes it to its
entry point. Source: https://docs.docker.com/reference/cli/docker/container/run/ (`docker run [OPTIONS] IMAGE [COMMAND]`).

Bad:

    # file: run.sh
    #!/bin/bash
    docker run --rm -it pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime --gpus all python train.py  # <-

Good:

    # file: run.sh
    #!/bin/bash
    docker run --rm -it --gpus all pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime python train.py

Quiet: an option of the program

    # file: run.sh
    #!/bin/bash
    docker run --rm --gpus all trainer python train.py --gpus 2
    docker run --rm --gpus all vllm/vllm-openai:v0.6.3 --model facebook/opt-125m
    docker run --rm --runtime=nvidia $EXTRA trainer --gpus 2 --epochs 3
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.commands.docker_run import docker_run
from gpuproof.linter.jobs.commands.unit_commands import span_of, unit_commands
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit

rule = Rule("DK105", "docker-option-after-image", Severity.ERROR, kinds=("shell", "makefile"))

_OPTIONS = frozenset(
    {"--shm-size", "--ipc", "--runtime", "--rm", "-it", "-ti", "--ulimit", "--network", "-v", "--volume"}
)
"""Options that no program in an image has as its first argument; `--gpus` has its own check."""


@rule.unit
def check(unit: Unit, _: Project) -> Hits:
    if "docker" not in unit.source:
        return
    for command in unit_commands(unit):
        run = docker_run(command)
        if run is None or not run.words or not run.is_complete or "entrypoint" in run.options:
            continue
        name = run.words[0].partition("=")[0]
        # A program may have `--gpus 2`, but not `--gpus all python train.py`.
        is_gpus = (
            name == "--gpus"
            and ("gpus" not in run.options)
            and "all" in (*run.words[0].split("="), *run.words[1:2])
        )
        if is_gpus or name in _OPTIONS:
            index = run.image_index + 1
            yield rule.hit(
                span_of(unit, command.places[index], command.words[index]),
                f"`{name}` stands after the image `{run.image}`: it goes to the program in the container, not to Docker"
                + (", which gives the container no GPU." if is_gpus else "."),
                remedy=f"Move {name} before {run.image}.",
            )
