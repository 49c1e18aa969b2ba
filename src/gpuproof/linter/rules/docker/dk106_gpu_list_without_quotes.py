"""`--gpus device=0,1` has to keep its quotes, or Docker reads the comma as the start of another field.

The shell removes one pair of quotes, and Docker parses what is left as CSV: `device=0,1` is the device 0 and the count 1, which
it rejects with "cannot set both Count and DeviceIDs on device request". A second pair of quotes keeps the list together.
Source: https://docs.docker.com/engine/containers/resource_constraints/#gpu.

Bad:

    # file: run.sh
    #!/bin/bash
    docker run --rm --gpus device=0,1 trainer  # <-
    docker run --rm --gpus "device=2,3" trainer  # <-

Good:

    # file: run.sh
    #!/bin/bash
    docker run --rm --gpus '"device=0,1"' trainer

Quiet: one device, a number, and capabilities

    # file: run.sh
    #!/bin/bash
    docker run --rm --gpus device=0 trainer
    docker run --rm --gpus 2 trainer
    docker run --rm --gpus "all,capabilities=utility" trainer
    docker run --rm --gpus \\"device=0,1\\" trainer
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.jobs.commands.docker_run import docker_run
from gpuproof.linter.jobs.commands.unit_commands import span_of, unit_commands
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit

rule = Rule("DK106", "gpu-list-without-quotes", Severity.ERROR, kinds=("shell", "makefile"))

_LIST = re.compile(r"device=[\w-]+(,[\w-]+)+")


@rule.unit
def check(unit: Unit, _: Project) -> Hits:
    if "--gpus" not in unit.source:
        return
    for command in unit_commands(unit):
        run = docker_run(command)
        given = run.options.get("gpus", ("",))[-1] if run is not None else ""
        if run is None or run.program != "docker" or not _LIST.fullmatch(given):
            continue
        place = command.places[min(run.positions["gpus"], len(command.places) - 1)]
        yield rule.hit(
            span_of(unit, place, given),
            f"`--gpus {given}` reaches Docker without quotes: it is the device {given[7:].partition(',')[0]} and the count "
            f"{given.rpartition(',')[2]}, which Docker rejects.",
            remedy=f"Write --gpus '\"{given}\"'.",
        )
