"""Findings as one versioned JSON document; within a version, keys are only added."""

from __future__ import annotations

import json
from typing import Any

from gpuproof.linter.engine import CheckReport
from gpuproof.linter.internal_errors import InternalError
from gpuproof.linter.rule import Hit
from gpuproof.linter.source.edit import Edit, Fix
from gpuproof.version import __version__

VERSION = 1


def render(report: CheckReport) -> str:
    """The report as JSON."""
    return json.dumps(to_json(report), indent=2)


def to_json(report: CheckReport) -> dict[str, Any]:
    """The report as a JSON object."""
    return {
        "version": VERSION,
        "gpuproof": __version__,
        "files": report.files,
        "findings": [_finding(hit) for hit in report.hits],
        "internal_errors": [_internal_error(error) for error in report.internal_errors],
    }


def _finding(hit: Hit) -> dict[str, Any]:
    location = dict(hit.finding.to_json().get("location", {}))
    end_cell, end_line, end_column = hit.span.unit.file_position(hit.span.end_line, hit.span.end_column)
    if hit.cell is not None:
        location["cell"] = hit.cell
    if end_cell == hit.cell:
        location |= {"end_line": end_line, "end_column": end_column}
    document = hit.finding.to_json() | {"name": hit.rule_name, "location": location}
    if hit.fix is not None:
        document["fix"] = _fix(hit.fix)
    return document


def _internal_error(one: InternalError) -> dict[str, Any]:
    """An exception in GPUproof itself; the findings of these rules on this file are missing."""
    return {
        "file": one.file,
        "rules": list(one.rules),
        "message": one.message,
        "remedy": one.remedy,
        "traceback": one.trace,
    }


def _fix(fix: Fix) -> dict[str, Any]:
    return {"title": fix.title, "safe": fix.safe, "edits": [_edit(edit) for edit in fix.edits]}


def _edit(edit: Edit) -> dict[str, Any]:
    unit = edit.span.unit
    cell, line, column = unit.file_position(edit.span.line, edit.span.column)
    _, end_line, end_column = unit.file_position(edit.span.end_line, edit.span.end_column)
    document = {
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "text": edit.text,
    }
    return document if cell is None else {"cell": cell, **document}
