"""Finds what containers of `docker run` and of Docker Compose run, and the GPUs that they get.

Sources: https://docs.docker.com/compose/how-tos/gpu-support/ and https://docs.docker.com/reference/compose-file/, 2026-11-29.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator

from gpuproof.linter.analysis.values import ABSENT, Entries, Value, default, known
from gpuproof.linter.jobs.commands.docker_run import DockerRun, docker_run
from gpuproof.linter.jobs.commands.shell import SimpleCommand
from gpuproof.linter.jobs.commands.unit_commands import span_of, unit_commands
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.source.span import Span, Unit

_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*)(?::?-([^}]*))?\}")
_KEPT = ("shm-size", "ipc", "runtime", "gpus")


def jobs_of_commands(unit: Unit) -> Iterator[JobDefinition]:
    """The containers that a shell script or Makefile starts."""
    if not any(word in unit.source for word in ("docker", "podman", "nerdctl")):
        return
    for command in unit_commands(unit):
        run = docker_run(command)
        if run is not None:
            yield _of_run(unit, command, run)


def _of_run(unit: Unit, command: SimpleCommand, run: DockerRun) -> JobDefinition:
    span = span_of(unit, command.places[0], command.words[0])
    folder = next(iter(run.options.get("workdir", ())), "")
    words = list(run.words)
    entry = next(iter(run.options.get("entrypoint", ())), "")
    if entry:
        words.insert(0, entry)
    image = (
        Value("unknown", (), span, run.image.partition("$")[0])
        if "$" in run.image
        else known(run.image, span)
    )
    environment = Entries({name: known(value, span) for name, value in run.environment.items()})
    environment.complete = "env-file" not in run.options
    return JobDefinition(
        kind="training",
        source="docker",
        api=f"{run.program} run",
        span=span,
        instance_count=known(1),
        gpu_count=_gpus_of(run, span),
        image=image,
        environment=known(environment, span),
        command=known(tuple(known(word, span) for word in words), span) if words else ABSENT,
        arguments={
            **{name: known(run.options[name][-1], span) for name in _KEPT if name in run.options},
            **({"workdir": known(folder, span)} if folder else {}),
        },
    )


def _gpus_of(run: DockerRun, span: Span) -> Value:
    """The GPUs of a container: 0 if it asks for none, at least one for `--gpus all`."""
    if not run.gives_gpus:
        return known(0, span)
    given = " ".join(run.options.get("gpus", ())).strip("\"'")
    if re.fullmatch(r"(count=)?\d+", given):
        return known(int(given.removeprefix("count=")), span)
    if match := re.fullmatch(r"device=(\d+(?:,\d+)*)", given):
        return known(len(match.group(1).split(",")), span)
    return default(1, span) if given == "all" else Value("unknown", (), span)


def jobs_of_compose(unit: Unit) -> Iterator[JobDefinition]:
    """The services of a Compose file."""
    from gpuproof.linter.templates import cloudformation  # yaml: only where such a file is

    services = cloudformation.document(unit).at("services")
    for name, service in services.parts.items():
        if service.entries is not None:
            yield _of_service(unit, str(name), service)


def _of_service(unit: Unit, name: str, service: Value) -> JobDefinition:
    span = service.span or unit.span(1)
    words = [*_words(service.at("entrypoint")), *_words(service.at("command"))]
    arguments = {str(key): value for key, value in service.parts.items()}
    recipe = _dockerfile(service.at("build"))
    if recipe is not None:
        arguments["dockerfile"] = known(recipe, service.at("build").span)
    shared = service.at("shm_size")
    if not shared.is_absent:
        arguments["shm-size"] = shared
    image = _interpolated(service.at("image"))
    return JobDefinition(
        kind="training",
        source="compose",
        api=f"service {name}",
        span=_key_span(unit, name, span),
        instance_count=known(1),
        gpu_count=gpus_of_service(service),
        image=image,
        environment=_environment(service.at("environment"), complete=service.at("env_file").is_absent),
        command=known(tuple(known(word, span) for word in words), service.at("command").span)
        if words
        else ABSENT,
        arguments=arguments,
    )


def gpus_of_service(service: Value) -> Value:
    """The GPUs that a service reserves: 0 if none, unknown if another file or a profile may add them."""
    if any(not service.at(key).is_absent for key in ("extends", "privileged")):
        return Value("unknown")
    runtime, gpus = service.at("runtime"), service.at("gpus")
    if not gpus.is_absent:
        return default(1, gpus.span)
    if not runtime.is_absent and runtime.text != "runc":
        return default(1, runtime.span)
    devices = service.at("deploy", "resources", "reservations", "devices")
    if devices.is_unknown or any(
        "nvidia" in (item.text or "nvidia") or "dri" in (item.text or "")
        for item in service.at("devices").items or ()
    ):
        return Value("unknown")
    for device in devices.items or ():
        capabilities = [item.text for item in device.at("capabilities").items or ()]
        if device.at("driver").text == "nvidia" or "gpu" in capabilities or "nvidia-compute" in capabilities:
            listed, count = device.at("device_ids").items, device.at("count")
            if listed is not None:
                return known(len(listed), device.span)
            return (
                known(int(count.number), device.span) if count.number is not None else default(1, device.span)
            )
    return known(0, service.span)


def _words(value: Value) -> list[str]:
    if value.items is not None:
        return [str(item.value) if item.is_known else "$(...)" for item in value.items]
    if value.text is None:
        return []
    try:
        return shlex.split(value.text.replace("$$", "$"))
    except ValueError:
        return []


def _dockerfile(build: Value) -> str | None:
    """The path of the Dockerfile that builds a service's image; None if it has none, or builds from elsewhere."""
    if build.is_absent or build.is_unknown:
        return None
    context = build.text if build.text is not None else (build.at("context").text or ".")
    file = build.at("dockerfile").text or "Dockerfile"
    if "://" in context or "$" in context + file or "dockerfile_inline" in build.parts:
        return None
    return os.path.normpath(os.path.join(context, file))  # noqa: PTH118


def _interpolated(value: Value) -> Value:
    """A text with `${NAME:-default}` replaced by its default; unknown without one."""
    if value.text is None or "$" not in value.text:
        return value
    text = _REFERENCE.sub(lambda match: match.group(2) or match.group(), value.text)
    if "$" in text:
        return Value("unknown", (), value.span, text.partition("$")[0])
    return default(text, value.span)


def _environment(value: Value, *, complete: bool) -> Value:
    entries = Entries()
    if value.entries is not None:
        entries |= {name: _interpolated(item) for name, item in value.entries.items()}
    for item in value.items or ():
        name, equals, text = (item.text or "").partition("=")
        if name and equals:
            entries[name] = _interpolated(known(text, item.span))
    entries.complete = complete
    return known(entries, value.span)


def _key_span(unit: Unit, name: str, span: Span) -> Span:
    """The position of a service's name, which is before its first member."""
    lines = unit.lines
    for number in range(span.line, max(0, span.line - 30), -1):
        text = lines[number - 1] if number <= len(lines) else ""
        if text.strip().strip("\"'").startswith((f"{name}:", f'{name}":')):
            column = text.index(name) + 1
            return unit.span(number, column, number, column + len(name))
    return span
