"""The commands in files that are not shell scripts: the recipes of a Makefile, the entry point of a Dockerfile."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_RULE = re.compile(r"^(?!\t)([^\s:=#][^:=#]*?)\s*::?(?!=)\s*([^=#]*?)(?:;(.*))?(?:#.*)?$")
_VARIABLE = re.compile(r"^(?:export\s+)?([A-Za-z_][\w.-]*)\s*(::?:?=|\?=|\+=|=)\s*(.*)$")
_REFERENCE = re.compile(r"\$[({]([A-Za-z_][\w.-]*)[)}]")
_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)\s+(.*)", re.DOTALL)
_SETTING = re.compile(r"([A-Za-z_]\w*)=(\"[^\"]*\"|'[^']*'|\S*)")


def recipe(text: str, words: Sequence[str] | None) -> str | None:
    """The shell text that `make` runs: the recipes of the targets and of what they need; None if a target is missing.

    Lines keep their numbers, so that what is found in the text is on the line of the Makefile.

    Args:
        words: the arguments of `make`: targets, `NAME=value`, options; None for all targets.
    """
    variables: dict[str, str] = {}
    rules: dict[str, tuple[list[str], list[tuple[int, str]]]] = {}
    current: list[list[tuple[int, str]]] = []
    first = ""
    for number, line in _logical_lines(text):
        if line.startswith("\t") and current:
            for lines in current:
                lines.append((number, line.strip().lstrip("@-+")))
        elif match := _VARIABLE.match(line):
            name, operator, value = match.groups()
            if operator == "+=":
                value = f"{variables.get(name, '')} {value}".strip()
            if operator != "?=" or name not in variables:
                variables[name] = value.partition(" #")[0].strip()
        elif match := _RULE.match(line):
            targets, needs = match.group(1).split(), match.group(2).split()
            current = []
            for target in targets:
                known, lines = rules.setdefault(target, ([], []))
                known += needs
                if match.group(3):
                    lines.append((number, match.group(3).strip()))
                current.append(lines)
                first = first or ("" if target.startswith(".") else target)
    passed = [word for word in (rules if words is None else words) if not word.startswith("-")]
    variables |= {name: value for name, equals, value in (word.partition("=") for word in passed) if equals}
    targets = [word for word in passed if "=" not in word and word in rules] or [first]
    found: dict[int, str] = {}
    if not _collect(targets, rules, found, set()):
        return None
    shown = [found.get(number, "") for number in range(1, max(found, default=0) + 1)]
    return "\n".join(_expanded(line, variables) for line in shown)


def _collect(
    targets: Sequence[str],
    rules: Mapping[str, tuple[list[str], list[tuple[int, str]]]],
    found: dict[int, str],
    seen: set[str],
) -> bool:
    complete = False
    for target in targets:
        if target in rules and target not in seen:
            seen.add(target)
            needs, lines = rules[target]
            _collect(needs, rules, found, seen)
            found.update(lines)
            complete = True
    return complete


def _expanded(line: str, variables: Mapping[str, str], depth: int = 0) -> str:
    replaced = _REFERENCE.sub(lambda match: variables.get(match.group(1), match.group(0)), line)
    if replaced != line and depth < 10:
        return _expanded(replaced, variables, depth + 1)
    # `$$` is a dollar of the shell; an unknown variable is unknown there too.
    return re.sub(r"\$\(([A-Za-z_]\w*)\)", r"${\1}", replaced.replace("$$", "$"))


@dataclass(frozen=True)
class Image:
    """What a Dockerfile says about the program of its image.

    Args:
        command: the shell text that a container runs; None if it does not say.
        entry: its ENTRYPOINT alone, to which SageMaker adds `train` or `serve`; None without one.
        line: the line of the instruction.
        folder: the working folder.
        copies: source in the build context and destination of each COPY and ADD.
        environment: the variables of ENV.
    """

    command: str | None
    line: int = 1
    entry: str | None = None
    folder: str = "/"
    copies: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def program(self) -> str | None:
        """The script that SageMaker's toolkit runs in the image, by SAGEMAKER_PROGRAM; None if it is not set."""
        name = self.environment.get("SAGEMAKER_PROGRAM")
        return posixpath.join("/opt/ml/code", name) if name else None

    def sources(self, path: str) -> list[str]:
        """The paths in the build context that may be at a path of the image, the last COPY first."""
        whole = posixpath.normpath(posixpath.join(self.folder, path))
        found: list[str] = []
        for source, target in reversed(self.copies):
            folder = target.rstrip("/")
            if whole == folder:
                found.append(source)
            elif whole.startswith(f"{folder}/"):
                rest = whole.removeprefix(f"{folder}/")
                found.append(
                    rest if source.endswith(f"/{rest}") or source == rest else f"{source.rstrip('/')}/{rest}"
                )
                if source.rpartition("/")[2] == rest:
                    found.append(source)
        return found


def image(text: str) -> Image:
    """The entry point of a Dockerfile's last stage.

    ENTRYPOINT and CMD are combined as Docker does it: CMD is appended to an ENTRYPOINT that is a list, and ignored after
    one that is a shell text. Source: https://docs.docker.com/reference/dockerfile/#understand-how-cmd-and-entrypoint-interact
    """
    entry: tuple[int, str, bool] | None = None
    default: tuple[int, str, bool] | None = None
    folder, copies = "/", []
    environment: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _INSTRUCTION.match(line)
        if match is None or line.lstrip().startswith("#"):
            continue
        name, rest = match.group(1).upper(), match.group(2).strip()
        if name == "FROM":
            entry = default = None
            folder, copies, environment = "/", [], {}
        elif name == "WORKDIR":
            folder = rest if rest.startswith("/") else f"{folder.rstrip('/')}/{rest}"
        elif name == "ENV":
            for setting in _SETTING.finditer(rest):
                environment[setting.group(1)] = setting.group(2).strip("\"'")
            if not _SETTING.match(rest):
                key, _, value = rest.partition(" ")
                environment[key] = value.strip()
        elif name in ("COPY", "ADD"):
            copies += _copied(rest, folder)
        elif name == "ENTRYPOINT":
            entry, default = (number, *_form(rest)), None
        elif name == "CMD":
            default = (number, *_form(rest))
    parts = [part for part in (entry, default) if part is not None]
    if not parts or not any(command for _, command, _ in parts):
        return Image(None, 1, None, folder, tuple(copies), environment)
    number, command, is_list = parts[0]
    if len(parts) > 1 and is_list:
        command = f"{command} {parts[1][1]}"
    return Image(command, number, entry[1] if entry is not None else None, folder, tuple(copies), environment)


def _form(rest: str) -> tuple[str, bool]:
    """The shell text of an instruction, and whether it is a list, which no shell interprets."""
    if rest.startswith("["):
        try:
            words = json.loads(rest)
        except ValueError:
            return rest, False
        if isinstance(words, list):
            return shlex.join(str(word) for word in words), True
    return rest, False


def _copied(rest: str, folder: str) -> list[tuple[str, str]]:
    if rest.startswith("["):
        try:
            words = [str(word) for word in json.loads(rest)]
        except ValueError:
            return []
    else:
        words = [word.strip("\"'") for word in rest.split()]
    if any(word.startswith("--from") for word in words):
        return []
    words = [word for word in words if not word.startswith("--")]
    if len(words) < 2:
        return []
    target = posixpath.normpath(posixpath.join(folder, words[-1]))
    return [(source, target) for source in words[:-1]]


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """The lines of a text, those that end in a backslash joined, with the number of the first."""
    found: list[tuple[int, str]] = []
    pending, start = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if pending and line.lstrip().startswith("#"):
            continue
        start = start if pending else number
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            continue
        found.append((start, pending + (line.lstrip() if pending else line)))
        pending = ""
    if pending:
        found.append((start, pending))
    return found
