"""Reads `docker run` and `docker build` in shell commands.

Source: https://docs.docker.com/reference/cli/docker/container/run/, 2026-11-29.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from gpuproof.linter.jobs.commands.shell import SimpleCommand

_PROGRAMS = frozenset({"docker", "podman", "nvidia-docker", "nvidia-docker2", "nerdctl"})
_IMAGE = re.compile(r"[\w$][^\s'\"]*")
_FLAGS = frozenset(
    [
        "detach",
        "disable-content-trust",
        "help",
        "init",
        "interactive",
        "no-healthcheck",
        "oom-kill-disable",
        "privileged",
        "publish-all",
        "quiet",
        "read-only",
        "replace",
        "rm",
        "sig-proxy",
        "tls-verify",
        "tty",
        "use-api-socket",
    ]
)
"""Options of `docker run` that take no value."""
_SHORT = {
    "v": "volume",
    "e": "env",
    "w": "workdir",
    "p": "publish",
    "u": "user",
    "h": "hostname",
    "l": "label",
    "m": "memory",
    "a": "attach",
    "c": "cpu-shares",
}
_SHORT_FLAGS = frozenset("ditqP")


@dataclass(frozen=True)
class DockerRun:
    """One `docker run`.

    Args:
        program: `docker`, `podman`, `nvidia-docker`.
        options: the values of each option, by its long name; `("",)` for a flag.
        positions: the index of each option in the words of the command; of the last one if it is repeated.
        image: the image, as it is written.
        image_index: its index in the words of the command.
        words: what follows the image.
        is_complete: False if a variable may contain more options.
    """

    program: str
    options: dict[str, tuple[str, ...]]
    positions: dict[str, int]
    image: str
    image_index: int
    words: tuple[str, ...]
    is_complete: bool = True

    @property
    def environment(self) -> dict[str, str]:
        """The variables of `-e NAME=value`."""
        pairs = (word.partition("=") for word in self.options.get("env", ()))
        return {name: value for name, equals, value in pairs if equals}

    @property
    def gives_gpus(self) -> bool:
        """Whether it asks for GPUs, in any of the ways that there are; true in doubt."""
        devices = " ".join(self.options.get("device", ()))
        return (
            not self.is_complete
            or self.program.startswith("nvidia-docker")
            or "gpus" in self.options
            or "privileged" in self.options
            or any("nvidia" in runtime for runtime in self.options.get("runtime", ()))
            or any(name in devices for name in ("nvidia", "dri", "kfd", "$"))
            or any("$" in runtime for runtime in self.options.get("runtime", ()))
        )


@dataclass(frozen=True)
class DockerBuild:
    """One `docker build`.

    Args:
        tags: the names of the image.
        file: the path of the Dockerfile.
        target: the stage that is built; empty for the last one.
    """

    tags: tuple[str, ...]
    file: str
    target: str = ""


@dataclass
class _Options:
    values: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    positions: dict[str, int] = field(default_factory=dict[str, int])
    is_complete: bool = True


def docker_run(command: SimpleCommand) -> DockerRun | None:
    """The `docker run` of a command; None for other commands, and for one without an image."""
    start = _subcommand(command.words, ("run", "create"))
    if start is None:
        return None
    program = PurePosixPath(command.words[start[0]]).name
    options, index = _options(command.words, start[1] + 1, _FLAGS)
    if index >= len(command.words) or _IMAGE.fullmatch(command.words[index]) is None:
        return None
    words = tuple(command.words[index + 1 :])
    return DockerRun(
        program, options.values, options.positions, command.words[index], index, words, options.is_complete
    )


def docker_build(command: SimpleCommand) -> DockerBuild | None:
    """The `docker build` of a command; None for other commands."""
    start = _subcommand(command.words, ("build",))
    if start is None:
        return None
    words = command.words
    tags: list[str] = []
    file, target, context = "", "", ""
    index = start[1] + 1
    while index < len(words):
        word = words[index]
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            context = word
        elif word in (
            "--no-cache",
            "--pull",
            "--push",
            "--load",
            "-q",
            "--quiet",
            "--rm",
            "--force-rm",
            "--squash",
        ):
            pass
        else:
            if not equals:
                index += 1
                value = words[index] if index < len(words) else ""
            if name in ("-t", "--tag"):
                tags.append(value)
            elif name in ("-f", "--file"):
                file = value
            elif name == "--target":
                target = value
        index += 1
    folder = "" if context in ("", ".", "-") else context.rstrip("/")
    return DockerBuild(tuple(tags), file or (f"{folder}/Dockerfile" if folder else "Dockerfile"), target)


def _subcommand(words: Sequence[str], names: Sequence[str]) -> tuple[int, int] | None:
    """The indices of the program and of its subcommand; None if the command is another one."""
    for index, word in enumerate(words[:4]):
        if PurePosixPath(word).name in _PROGRAMS:
            following = index + 1
            while following < len(words) and words[following] in ("container", "image", "buildx", "builder"):
                following += 1
            if following < len(words) and words[following] in names:
                return index, following
            return None
        if word not in ("sudo", "time", "exec", "nohup", "-E"):
            return None
    return None


def _options(words: Sequence[str], index: int, flags: frozenset[str]) -> tuple[_Options, int]:
    found = _Options()
    while index < len(words):
        word = words[index]
        if (
            word.startswith(("$", "`"))
            and not word.startswith(("$PWD/", "${PWD}/"))
            and _is_options(words, index)
        ):
            # `docker run $OPTIONS image`: a variable with options, which are unknown.
            found.is_complete = False
            index += 1
            continue
        if not word.startswith("-") or word == "-":
            break
        position = index
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if name not in flags and not equals:
                index += 1
                value = words[index] if index < len(words) else ""
        else:
            letters = word[1:]
            if set(letters) <= _SHORT_FLAGS:
                index += 1
                continue
            # `-itv /a:/b`, `-v/a:/b`.
            first = next((i for i, letter in enumerate(letters) if letter not in _SHORT_FLAGS), 0)
            name, value = _SHORT.get(letters[first], letters[first]), letters[first + 1 :].removeprefix("=")
            if not value:
                index += 1
                value = words[index] if index < len(words) else ""
        found.values[name] = (*found.values.get(name, ()), value)
        found.positions[name] = position
        index += 1
    return found, index


def _is_options(words: Sequence[str], index: int) -> bool:
    """Whether a variable stands for options: an image or more options follow it."""
    following = words[index + 1] if index + 1 < len(words) else ""
    return bool(following) and (
        following.startswith("-") or "/" in following or ":" in following or "$" in following
    )
