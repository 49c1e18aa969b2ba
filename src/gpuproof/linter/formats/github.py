"""Findings as GitHub Actions workflow commands, which GitHub shows as annotations on a pull request.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands, read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.engine import CheckReport
from gpuproof.linter.rule import Hit

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: CheckReport) -> Iterator[str]:
    """One command per finding, and per internal error."""
    for hit in report.hits:
        yield _command(hit)
    for error in report.internal_errors:
        properties = f"file={_escaped(error.file, ':,')},title=internal error"
        text = _escaped(f"{error.message}\n{error.remedy}")
        yield f"::error {properties}::{text}"


def _command(hit: Hit) -> str:
    finding = hit.finding
    location = finding.location
    assert location is not None
    properties = {"file": location.file or "", "title": f"{hit.code} {hit.rule_name}"}
    message = finding.message
    if hit.cell is not None:
        # Lines of a cell are not lines of the notebook file: an annotation would be in the wrong place.
        message = f"Cell {hit.cell}, line {location.line}: {message}"
    else:
        _, end_line, end_column = hit.span.unit.file_position(hit.span.end_line, hit.span.end_column)
        properties |= {"line": str(location.line), "endLine": str(end_line)}
        if end_line == location.line:
            # GitHub accepts columns only if start and end are on one line.
            properties |= {"col": str(location.column), "endColumn": str(end_column)}
    text = "\n".join((message, *finding.evidence, *([finding.remedy] if finding.remedy else [])))
    named = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {named}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    for character in ("%", "\r", "\n", *more):
        text = text.replace(character, f"%{ord(character):02X}")
    return text
