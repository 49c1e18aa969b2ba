"""Parses Python units; syntax errors are returned, not raised."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from dataclasses import dataclass
from itertools import pairwise

from gpuproof.linter.source import data_literals, nested_quotes
from gpuproof.linter.source.span import Span, Unit


@dataclass(frozen=True)
class SyntaxProblem:
    """One syntax error of a unit.

    Args:
        certain: whether Python rejects it too; deeply nested code may only exceed our recursion limit.
    """

    message: str
    span: Span
    certain: bool = True


_PYTHON_2 = re.compile(
    r"""\s*(print\s+["'\w]|print\s*$|exec\s+["'\w]|except\s+[\w.]+\s*,\s*\w+\s*:|raise\s+\w+\s*,)"""
)
_SHELL = re.compile(
    r"\s*(apt|apt-get|aws|bash|conda|curl|docker|gcloud|git|huggingface-cli|kubectl|nvidia-smi|pip3|python3?|sh|sudo|tar|torchrun|unzip|wget)\s+[\w./-]"
)
_TOO_DEEP = "the code is nested too deeply to be parsed"
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|<%.*?%>|^\s*(<<<<<<<|>>>>>>>) ?", re.MULTILINE)


def parse(unit: Unit) -> tuple[ast.Module | None, list[SyntaxProblem]]:
    """Parse a unit into a syntax tree and syntax errors; the cells of a notebook fail one by one.

    A template (Jinja, Cookiecutter) that is not Python yet has neither a tree nor errors.
    """
    if len(unit.source) > data_literals.SMALL:
        source = data_literals.shorten_data(unit.source)
        if data_literals.is_data(source):
            return None, [SyntaxProblem("it is data rather than code", unit.span(1), certain=False)]
    else:
        source = unit.source
    tree, error = parse_text(source)
    if error is None:
        return tree, []
    if unit.kind == "notebook":
        return _parse_cells(unit, source.split("\n"))
    if _TEMPLATE.search(unit.source) and not re.search(r"^<<<<<<< ", unit.source, re.MULTILINE):
        return None, []
    return None, [_syntax_problem(unit, error)]


def parse_text(source: str) -> tuple[ast.Module | None, SyntaxError | None]:
    """Parse a text into a syntax tree, or an error if it is not Python, of this version or of 3.12."""
    tree, error = _parse(source)
    if error is not None and sys.version_info < nested_quotes.FIRST_VERSION:
        older = nested_quotes.requoted(source)
        tree = _parse(older)[0] if older != source else None
    return tree, error if tree is None else None


def _parse(source: str) -> tuple[ast.Module | None, SyntaxError | None]:
    with warnings.catch_warnings():
        # Python itself warns of invalid escapes when the script runs.
        warnings.simplefilter("ignore")
        try:
            flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            return compile(source, "<unit>", "exec", flags, dont_inherit=True), None  # pyright: ignore[reportReturnType]
        except SyntaxError as error:
            return None, error
        except (RecursionError, MemoryError):
            return None, SyntaxError(_TOO_DEEP, ("<unit>", 1, 1, ""))
        except ValueError as error:
            return None, SyntaxError(str(error), ("<unit>", 1, 1, ""))


def _parse_cells(unit: Unit, lines: list[str]) -> tuple[ast.Module | None, list[SyntaxProblem]]:
    """Parse the cells of a notebook; those with errors are replaced by blank lines."""
    errors: list[SyntaxProblem] = []
    starts = [*(segment.first for segment in unit.segments), len(lines) + 1]
    for first, end in pairwise(starts):
        _, error = parse_text("\n".join(lines[first - 1 : end - 1]))
        if error is None:
            continue
        line = first - 1 + min(max(error.lineno or 1, 1), end - first)
        errors.append(_syntax_problem(unit, error, line))
        lines[first - 1 : end - 1] = [""] * (end - first)
    tree, error = parse_text("\n".join(lines))
    if error is not None:
        errors.append(_syntax_problem(unit, error))
    return tree, errors


def _syntax_problem(unit: Unit, error: SyntaxError, line: int | None = None) -> SyntaxProblem:
    at = min(max(line or error.lineno or 1, 1), max(len(unit.lines), 1))
    text = unit.lines[at - 1] if unit.lines else ""
    column = min(max(error.offset or 1, 1), len(text) + 1)
    message = error.msg
    if _PYTHON_2.match(text):
        message = f"this is Python 2, which no current image runs ({message})"
    elif unit.kind == "notebook" and (command := _SHELL.match(text)):
        message = (
            f"`{command[1]}` is a shell command, which needs `!` before it, or `%%bash` in the first line"
        )
    return SyntaxProblem(message, unit.span(at, column, at, column + 1), message != _TOO_DEEP)
