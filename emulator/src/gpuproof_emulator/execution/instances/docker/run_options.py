"""The options of `docker run` that the simulation implements; any other is rejected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_HOST_ONLY = ("--network", "--ipc", "--pid")
_FIXED = {"--pull": "never", "--log-driver": "none", "--user": "0:0", "--gpus": "all"}


class Rejected(Exception):
    """An option that the simulation does not implement, or that Docker does not accept."""


@dataclass(frozen=True)
class Mount:
    """A folder or file of the instance in a container."""

    source: str
    target: str
    readonly: bool = False


@dataclass
class RunOptions:
    """What `docker run` was told.

    Args:
        name: of the container.
        image: its image.
        entrypoint: the program that is run.
        arguments: its arguments.
        environment: further variables.
        mounts: in their order.
        limits: soft and hard limits by the names of `ulimit`; -1 is no limit.
        workdir: where the program starts.
        gpus: whether it gets the GPUs.
    """

    name: str = ""
    image: str = ""
    entrypoint: str = ""
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    mounts: list[Mount] = field(default_factory=list)
    limits: dict[str, tuple[int, int]] = field(default_factory=dict)
    workdir: str = "/"
    gpus: bool = False


def parse_run(words: Sequence[str]) -> RunOptions:
    """Parse what follows `docker run`.

    Raises:
        Rejected: an option is not implemented, or one without which the simulation would not be like Docker is missing.
    """
    found, rest = RunOptions(), list(words)
    seen: set[str] = set()
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        seen.add(option)
        if option == "--rm":
            continue
        if not rest:
            raise Rejected(f"flag needs an argument: {option}")
        _apply(found, option, rest.pop(0))
    if not rest:
        raise Rejected('"docker run" requires at least 1 argument.')
    for option in ("--rm", "--name", "--entrypoint", "--pull", *_HOST_ONLY):
        if option not in seen:
            raise Rejected(f"the simulated docker runs no container without {option}")
    found.image, *found.arguments = rest
    return found


def _apply(found: RunOptions, option: str, value: str) -> None:
    if option in _HOST_ONLY or option in _FIXED:
        only = _FIXED.get(option, "host")
        if value != only:
            raise Rejected(f"the simulated docker supports {option} {only} only, not {value}")
        found.gpus = found.gpus or option == "--gpus"
        return
    match option:
        case "--name":
            found.name = value
        case "--label":
            pass
        case "--entrypoint":
            found.entrypoint = value
        case "--workdir":
            found.workdir = value
        case "--env":
            name, equals, text = value.partition("=")
            if not name or not equals:
                raise Rejected(f"the simulated docker supports --env NAME=VALUE only, not {value}")
            found.environment[name] = text
        case "--ulimit":
            name, _, numbers = value.partition("=")
            soft, _, hard = numbers.partition(":")
            found.limits[name] = (int(soft), int(hard or soft))
        case "--mount":
            found.mounts.append(_mount(value))
        case _:
            raise Rejected(f"unknown flag: {option}")


def _mount(value: str) -> Mount:
    fields: dict[str, str] = {}
    for part in value.split(","):
        name, _, text = part.partition("=")
        fields[name] = text
    readonly = "readonly" in fields
    fields.pop("readonly", None)
    if fields.pop("type", "") != "bind" or set(fields) != {"source", "target"}:
        raise Rejected(f"the simulated docker supports --mount type=bind,source=…,target=… only, not {value}")
    return Mount(fields["source"], fields["target"], readonly)
