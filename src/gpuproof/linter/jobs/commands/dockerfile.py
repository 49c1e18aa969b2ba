"""Parses Dockerfiles: stages and their instructions, with continuations, heredocs and substituted arguments.

Source: https://docs.docker.com/reference/dockerfile/, 2026-11-29.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_INSTRUCTION = re.compile(r"[ \t]*([A-Za-z]+)(?=[ \t\\]|$)")
_HEREDOC = re.compile(r"<<-?[ \t]*([\"']?)([A-Za-z_]\w*)\1")
_REFERENCE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-+])([^{}]*))?\})")
_SETTING = re.compile(r"([A-Za-z_]\w*)=(\"(?:\\.|[^\"\\])*\"|'[^']*'|(?:\\.|\S)*)")
_FLAG = re.compile(r"[ \t]*--[\w-]+(?:=(?:\"[^\"]*\"|\S+))?[ \t]*")
_DEPTH = 20


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Args:
        name: in capitals: `RUN`.
        value: what follows the name, its lines joined, and without a heredoc.
        line: the line of its name, from 1.
        text: what follows as it is written, after as many line breaks and spaces as precede it in the file: a shell text
            whose words have their positions in the file. The body of a heredoc of RUN is part of it.
        variables: the arguments and variables that are set where it stands.
    """

    name: str
    value: str
    line: int
    text: str = field(repr=False)
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage of a build.

    Args:
        image: the image that it starts from, with the arguments substituted; with `$` where one is unknown.
        name: its name after AS, in lower case; empty without one.
        parent: the earlier stage that it starts from; None for an image.
        line: the line of its FROM.
        column, end_column: of the image in that line.
        instructions: after FROM.
    """

    image: str
    name: str
    parent: Stage | None
    line: int
    column: int
    end_column: int
    instructions: list[Instruction] = field(default_factory=list[Instruction])

    @property
    def chain(self) -> list[Stage]:
        """The stage and those that it builds on, the first of them first."""
        found: list[Stage] = []
        stage: Stage | None = self
        while stage is not None and len(found) < _DEPTH:
            found.insert(0, stage)
            stage = stage.parent
        return found

    @property
    def base(self) -> Stage:
        """The stage at the start of the chain, which starts from an image."""
        return self.chain[0]

    def all_instructions(self) -> Iterator[Instruction]:
        """The instructions of the chain, in the order in which they run."""
        for stage in self.chain:
            yield from stage.instructions

    def environment(self) -> dict[str, Instruction]:
        """The variables that ENV sets in the image, with the last instruction that sets each."""
        return {
            name: instruction
            for instruction in self.all_instructions()
            if instruction.name == "ENV"
            for name in settings(instruction.value)
        }


def read_stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile, in order; empty for a text without FROM."""
    stages: list[Stage] = []
    global_arguments: dict[str, str] = {}
    variables: dict[str, str] = {}
    for name, line, value, padded in _instructions(text):
        if name == "FROM":
            variables = {}
            stages.append(_stage(value, line, text, stages, global_arguments))
            continue
        if name == "ARG":
            for setting in value.split():
                key, equals, default = setting.partition("=")
                target = variables if stages else global_arguments
                if equals:
                    target[key] = substitute(default.strip("\"'"), {**global_arguments, **variables})
                elif stages and key in global_arguments:
                    variables[key] = global_arguments[key]
        elif name == "ENV":
            variables |= {key: substitute(given, variables) for key, given in settings(value).items()}
        if stages:
            stages[-1].instructions.append(Instruction(name, value, line, padded, dict(variables)))
    return stages


def settings(value: str) -> dict[str, str]:
    """The variables of ENV or LABEL: `A=1 B="x y"`, or `A the rest`."""
    if _SETTING.match(value) is None:
        name, _, rest = value.partition(" ")
        return {name: rest.strip()} if name else {}
    return {match.group(1): match.group(2).strip("\"'") for match in _SETTING.finditer(value)}


def substitute(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$NAME`, `${NAME}` and `${NAME:-default}`; unknown ones stay as they are."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2)
        operator, word = match.group(3) or "", match.group(4) or ""
        if "+" in operator:
            return word if variables.get(name) else ""
        if name in variables and (variables[name] or ":" not in operator):
            return variables[name]
        return word if operator else match.group()

    return _REFERENCE.sub(value, text)


def _stage(value: str, line: int, text: str, stages: list[Stage], arguments: Mapping[str, str]) -> Stage:
    words = [word for word in value.split() if not word.startswith("--")]
    written = words[0] if words else ""
    image = substitute(written, arguments).strip("\"'")
    name = words[2].lower() if len(words) > 2 and words[1].lower() == "as" else ""
    parent = next((stage for stage in reversed(stages) if stage.name and stage.name == image.lower()), None)
    source = text.split("\n")[line - 1]
    column = max(0, source.find(written)) + 1
    return Stage(image, name, parent, line, column, column + max(1, len(written)))


def _instructions(text: str) -> Iterator[tuple[str, int, str, str]]:
    """Name, line, joined value and padded text of each instruction."""
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        match = _INSTRUCTION.match(lines[index])
        if match is None or lines[index].lstrip().startswith("#"):
            index += 1
            continue
        start, written = index, [" " * match.end() + lines[index][match.end() :]]
        while _continues(written[-1], is_comment=len(written) > 1) and index + 1 < len(lines):
            index += 1
            written.append(lines[index])
        index += 1
        shown = [line if number == 0 else _without_comment(line) for number, line in enumerate(written)]
        name = match.group(1).upper()
        value = " ".join(line.strip().removesuffix("\\").strip() for line in shown if line.strip() != "\\")
        body: list[str] = []
        if name in ("RUN", "COPY", "ADD"):
            for heredoc in _HEREDOC.finditer(value):
                end = next(
                    (i for i in range(index, len(lines)) if lines[i].strip() == heredoc.group(2)), None
                )
                if end is not None:
                    body += [*lines[index:end], ""]
                    index = end + 1
        if name == "RUN" and value.lstrip().startswith("<<"):
            # The body itself is the script.
            shown = ["", *body]
        elif body:
            shown += [*body[:-1], _HEREDOC.findall(value)[-1][1]]
        value = _HEREDOC.sub("", value).strip()
        padded = "\n" * start + _without_flags("\n".join(shown)) if name == "RUN" else value
        yield name, start + 1, value, padded


def _continues(line: str, *, is_comment: bool) -> bool:
    return line.rstrip().endswith("\\") or (
        is_comment and (not line.strip() or line.lstrip().startswith("#"))
    )


def _without_comment(line: str) -> str:
    """A line between continued ones: a comment or an empty line continues the instruction."""
    return "\\" if not line.strip() or line.lstrip().startswith("#") else line


def _without_flags(text: str) -> str:
    """The text of RUN with spaces in the place of `--mount=…`."""
    position = 0
    while match := _FLAG.match(text, position):
        text = text[: match.start()] + " " * (match.end() - match.start()) + text[match.end() :]
        position = match.end()
        following = re.compile(r"[ \t]*\\\n[ \t]*(?=--)").match(text, position)
        position = following.end() if following else position
    return text
