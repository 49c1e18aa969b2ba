"""From source to a syntax tree; what does not parse becomes one finding, not a crash."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, replace
from itertools import pairwise

from gpuproof.check.source.span import Span, Unit


@dataclass(frozen=True)
class SyntaxProblem:
    """Why a unit does not parse.

    Args:
        message: in a sentence.
        span: where.
        certain: whether Python would refuse it too; code that is nested deeply may only be too deep for us.
    """

    message: str
    span: Span
    certain: bool = True


_PYTHON_2 = re.compile(
    r"""^\s*(print\s+["'\w]|print\s*$|exec\s+["'\w]|except\s+[\w.]+\s*,\s*\w+\s*:|raise\s+\w+\s*,)""",
    re.MULTILINE,
)
_TOO_DEEP = "the code is nested too deeply to be read"
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|<%.*?%>|^\s*(<<<<<<<|>>>>>>>) ?", re.MULTILINE)


def parse(unit: Unit) -> tuple[ast.Module | None, list[SyntaxProblem]]:
    """The syntax tree, and what does not parse; a notebook's cells fail one by one.

    A template (Jinja, Cookiecutter) that is not Python yet gives neither a tree nor a complaint.
    """
    tree, error = _parse(unit.source)
    if error is None:
        return tree, []
    if unit.kind == "notebook":
        return _parse_cells(unit)
    if _TEMPLATE.search(unit.source) and not re.search(r"^<<<<<<< ", unit.source, re.MULTILINE):
        return None, []
    return None, [_broken(unit, error)]


def _parse(source: str) -> tuple[ast.Module | None, SyntaxError | None]:
    with warnings.catch_warnings():
        # An invalid escape is Python's own to complain about, once the script runs.
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


def _parse_cells(unit: Unit) -> tuple[ast.Module | None, list[SyntaxProblem]]:
    """Blanks the cells that do not parse by themselves and reads the others."""
    lines, broken = list(unit.lines), list[SyntaxProblem]()
    starts = [*(segment.first for segment in unit.segments), len(lines) + 1]
    for first, end in pairwise(starts):
        _, error = _parse("\n".join(lines[first - 1 : end - 1]))
        if error is None:
            continue
        shifted = replace(unit)
        line = first - 1 + min(max(error.lineno or 1, 1), end - first)
        broken.append(_broken(shifted, error, line))
        lines[first - 1 : end - 1] = [""] * (end - first)
    tree, error = _parse("\n".join(lines))
    if error is not None:
        broken.append(_broken(unit, error))
    return tree, broken


def _broken(unit: Unit, error: SyntaxError, line: int | None = None) -> SyntaxProblem:
    at = min(max(line or error.lineno or 1, 1), max(len(unit.lines), 1))
    text = unit.lines[at - 1] if unit.lines else ""
    column = min(max(error.offset or 1, 1), len(text) + 1)
    message = error.msg
    if _PYTHON_2.search(unit.source) and (
        "print" in message
        or "exec" in message
        or "multiple exception" in message
        or "invalid syntax" in message
    ):
        message = f"this is Python 2, and no current image runs it ({message})"
    return SyntaxProblem(message, unit.span(at, column, at, column + 1), message != _TOO_DEEP)
