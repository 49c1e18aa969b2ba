"""Python packages that commands install: names, constraints, indexes and builds, of pip, uv and conda."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpuproof.linter.jobs.commands.shell import Place, SimpleCommand

_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*(?:((?:===?|[<>!~]=?).*)|@\s*(\S+))?$")
_CPU_INDEX = re.compile(
    r"download\.pytorch\.org/whl/(nightly/|test/)?cpu(/|$|-)|(^|/)whl/(nightly/)?cpu/?$|^cpu$"
)
_INDEXES = (
    "--index-url",
    "--extra-index-url",
    "-i",
    "-f",
    "--find-links",
    "--index",
    "--torch-backend",
    "--default-index",
)
_VALUES = frozenset(
    {
        "-r",
        "--requirement",
        "-c",
        "--constraint",
        "-t",
        "--target",
        "--prefix",
        "--root",
        "--timeout",
        "--retries",
    }
    | {
        "--proxy",
        "--trusted-host",
        "--progress-bar",
        "--cache-dir",
        "--python",
        "-p",
        "-n",
        "--name",
        "--src",
    }
    | {
        "--channel",
        "--only-binary",
        "--no-binary",
        "--platform",
        "--python-version",
        "--log",
        "--build-option",
    }
)
_CPU_PACKAGES = frozenset(
    {"cpuonly", "pytorch-cpu", "tensorflow-cpu", "intel-tensorflow", "jax-cpu", "pytorch-mutex"}
)
_FRAMEWORKS = {
    "torch": "torch",
    "pytorch": "torch",
    "pytorch-cpu": "torch",
    "pytorch-gpu": "torch",
    "tensorflow": "tensorflow",
    "tensorflow-cpu": "tensorflow",
    "tensorflow-gpu": "tensorflow",
    "intel-tensorflow": "tensorflow",
}


@dataclass(frozen=True)
class Install:
    """One package that a command installs.

    Args:
        name: normalised.
        constraint: such as `==2.1.0`; empty without one.
        tool: `pip`, `uv` or `conda`.
        replaces: whether an installed version is replaced even if it satisfies the constraint: `--upgrade`.
        cpu_index: the index of builds for CPUs that it comes from; empty for others.
        extras: such as `cuda12`; empty without one.
    """

    name: str
    constraint: str
    tool: str
    word: str
    place: Place
    replaces: bool = False
    cpu_index: str = ""
    extras: str = ""

    @property
    def framework(self) -> str | None:
        """`torch` or `tensorflow`; None for other packages."""
        return _FRAMEWORKS.get(self.name)

    @property
    def pinned(self) -> str:
        """The exact version, without its local part; empty without one."""
        match = re.fullmatch(r"={1,3}\s*(\d[\w.]*)(\+[\w.]+)?(=.*)?", self.constraint)
        return match.group(1) if match is not None else ""

    @property
    def cpu_reason(self) -> str | None:
        """Why it is a build without CUDA, as a clause; None if it is not, or if that is unknown."""
        if re.search(r"\+cpu\b|=cpu_|=\*cpu|=py[\d.]+_cpu", self.constraint):
            return f"`{self.name}{self.constraint}` is a build without CUDA"
        if self.name in _CPU_PACKAGES and self.name != "pytorch-mutex":
            return f"`{self.name}` is a build without CUDA"
        if self.cpu_index and self.framework == "torch":
            return f"`{self.cpu_index}` has only builds without CUDA"
        return None


@dataclass(frozen=True)
class Installation:
    """What one command installs.

    Args:
        files: the requirements files that it reads.
    """

    packages: tuple[Install, ...]
    files: tuple[str, ...]
    command: SimpleCommand
    cpu_index: str = ""
    replaces: bool = False


def is_cpu_index(address: str) -> bool:
    """Whether an index has builds for CPUs only."""
    return _CPU_INDEX.search(address) is not None


def installation(command: SimpleCommand) -> Installation | None:
    """What a command installs; None for other commands."""
    found = _start(command.words)
    if found is None:
        return None
    tool, index = found
    words, places = command.words[index:], command.places[index:]
    options = list(_options(words))
    indexes = [value for name, value in options if name in _INDEXES]
    cpu_index = next((value for value in indexes if _CPU_INDEX.search(value)), "") if tool != "conda" else ""
    others = [value for value in indexes if value != cpu_index]
    # Beside PyPI it is the one that counts, too: `2.4.0+cpu` is a higher version than `2.4.0`.
    is_only = not others or all("pypi.org" in other for other in others)
    replaces = any(
        name in ("-U", "--upgrade", "--force-reinstall", "-I", "--ignore-installed") for name, _ in options
    )
    packages = tuple(
        Install(
            re.sub(r"[-_.]+", "-", match.group(1)).lower(),
            (match.group(2) or "").strip(),
            tool,
            word,
            place,
            replaces,
            cpu_index if is_only else "",
            (re.search(r"\[([^\]]*)\]", word) or [word, ""])[1],
        )
        for word, place in _packages(words, places)
        if (match := _REQUIREMENT.match(_conda_word(word) if tool == "conda" else word)) and "/" not in word
    )
    files = tuple(value for name, value in options if name in ("-r", "--requirement"))
    return Installation(packages, files, command, cpu_index if is_only else "", replaces)


def _start(words: Sequence[str]) -> tuple[str, int] | None:
    """The tool, and the index of the first word after `install`."""
    for index, word in enumerate(words[:8]):
        name = PurePosixPath(word).name
        following = words[index + 1 : index + 4]
        if re.fullmatch(r"pip[\d.]*", name) and "install" in following[:2]:
            tool = "uv" if index and words[index - 1] == "uv" else "pip"
            return tool, words.index("install", index) + 1
        if name in ("conda", "mamba", "micromamba") and {"install", "create"} & set(following[:2]):
            verb = next(word for word in following if word in ("install", "create"))
            return "conda", words.index(verb, index) + 1
        if name == "uv" and following[:1] == ("add",):
            return "uv", index + 2
    return None


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for index, word in enumerate(words):
        if not word.startswith("-"):
            continue
        name, equals, value = word.partition("=")
        if equals:
            yield name, value
        elif len(word) > 2 and word[:2] in ("-r", "-c", "-i", "-f") and word[1] != "-":
            yield word[:2], word[2:]
        else:
            yield name, words[index + 1] if index + 1 < len(words) else ""


def _packages(words: Sequence[str], places: Sequence[Place]) -> Iterator[tuple[str, Place]]:
    skip = False
    for word, place in zip(words, places, strict=False):
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in _VALUES or word in _INDEXES
        elif "$" not in word:
            yield word, place


def _conda_word(word: str) -> str:
    """A package of conda, `pytorch=2.1=*cuda*`, with the constraint as pip writes it."""
    match = re.fullmatch(r"(?:[\w-]+::)?([\w.-]+)=(?!=)(.*)", word)
    return f"{match.group(1)}=={match.group(2)}" if match is not None else word.rpartition("::")[2]
