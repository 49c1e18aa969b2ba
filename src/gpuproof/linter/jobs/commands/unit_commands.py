"""The commands that a file contains: a shell script, a Makefile, the RUN instructions of a Dockerfile, a notebook's `!` lines."""

from __future__ import annotations

from gpuproof.linter.jobs.commands import files
from gpuproof.linter.jobs.commands.dockerfile import read_stages
from gpuproof.linter.jobs.commands.shell import Place, Shell, SimpleCommand, commands
from gpuproof.linter.source.span import Span, Unit

_MAGICS = ("!", "%pip ", "%conda ", "%sx ")
_SHOWN = 20
"""Lines of a continued recipe of a Makefile that are searched for a word."""


def unit_commands(unit: Unit) -> list[SimpleCommand]:
    """The simple commands of a file, in order; empty for files without commands."""
    match unit.kind:
        case "shell":
            return list(commands(unit.source, Shell()))
        case "makefile":
            return list(commands(files.recipe(unit.source, None) or "", Shell()))
        case "dockerfile":
            return [
                command
                for stage in read_stages(unit.source)
                for instruction in stage.instructions
                if instruction.name == "RUN" and not instruction.value.startswith("[")
                for command in commands(instruction.text, Shell(dict(instruction.variables)))
            ]
        case "notebook":
            return _of_notebook(unit)
        case _:
            return []


def span_of(unit: Unit, place: Place, word: str = "") -> Span:
    """Where a word of a command is; its line if the word is not written there, such as the value of a variable."""
    lines = unit.lines
    for number in range(place.line, min(place.line + _SHOWN, len(lines) + 1)):
        text = lines[number - 1]
        column = text.find(word, place.column - 1 if number == place.line and unit.kind != "makefile" else 0)
        if word and column >= 0:
            return unit.span(number, column + 1, number, column + 1 + len(word))
        if not text.rstrip().endswith("\\"):
            break
    text = lines[place.line - 1] if place.line <= len(lines) else ""
    start = len(text) - len(text.lstrip()) + 1
    return unit.span(place.line, start, place.line, max(start + 1, len(text.rstrip()) + 1))


def _of_notebook(unit: Unit) -> list[SimpleCommand]:
    found: list[SimpleCommand] = []
    for number, line in enumerate(unit.raw.split("\n") if unit.raw else (), 1):
        stripped = line.strip()
        magic = next((magic for magic in _MAGICS if stripped.startswith(magic)), None)
        if magic is not None:
            # Spaces for the mark, so that words keep their columns.
            start = line.index(stripped) + 1
            text = "\n" * (number - 1) + " " * start + stripped[1:]
            found += commands(text, Shell())
    return found
