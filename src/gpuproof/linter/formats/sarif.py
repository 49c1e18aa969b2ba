"""Findings as SARIF 2.1.0, which code scanning services read.

Specification: https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/sarif-v2.1.0-os.html, read 2026-11-21.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from typing import Any
from urllib.parse import quote

from gpuproof.findings import Severity
from gpuproof.linter.docs.examples import read_documentation
from gpuproof.linter.docs.pages import render_page
from gpuproof.linter.engine import CheckReport
from gpuproof.linter.internal_errors import InternalError
from gpuproof.linter.rule import Hit, Rule
from gpuproof.linter.source.edit import Edit
from gpuproof.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def render(report: CheckReport) -> str:
    """The report as one SARIF run. In notebooks, lines are those of the cell that the message names."""
    found = {hit.code for hit in report.hits}
    rules = [entry.rule for entry in report.rules if entry.code in found]
    index = {rule.code: number for number, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "gpuproof",
                "semanticVersion": __version__,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(hit, index[hit.code], seen) for hit in report.hits],
    }
    if report.internal_errors:
        notifications = [_notification(error) for error in report.internal_errors]
        run["invocations"] = [{"executionSuccessful": False, "toolExecutionNotifications": notifications}]
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _notification(one: InternalError) -> dict[str, Any]:
    notification: dict[str, Any] = {"level": "error", "message": {"text": f"{one.message}. {one.remedy}"}}
    if one.file:
        notification["locations"] = [{"physicalLocation": {"artifactLocation": _location(one.file)}}]
    return notification


def _rule(rule: Rule) -> dict[str, Any]:
    documentation = read_documentation(rule.doc)
    return {
        "id": rule.code,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": documentation.summary or rule.name},
        "fullDescription": {"text": documentation.reason or rule.name},
        "help": {"text": f"Run: gpuproof rule {rule.code}", "markdown": render_page(rule)},
        "defaultConfiguration": {"level": _LEVELS[rule.severity], "enabled": rule.when != "strict"},
    }


def _result(hit: Hit, index: int, seen: Counter[str]) -> dict[str, Any]:
    finding = hit.finding
    where = f"Cell {hit.cell}: " if hit.cell is not None else ""
    text = " ".join((where + finding.message, *finding.evidence, finding.remedy or "")).strip()
    result: dict[str, Any] = {
        "ruleId": hit.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(hit), "region": _region(hit)}}],
        "partialFingerprints": {"gpuproof/v1": _fingerprint(hit, seen)},
    }
    # Lines of a notebook's cell are not lines of the file, so a service cannot apply the edit.
    if hit.fix is not None and not hit.span.unit.is_notebook:
        replacements = [_replacement(edit) for edit in hit.fix.edits]
        change = {"artifactLocation": _artifact(hit), "replacements": replacements}
        result["fixes"] = [{"description": {"text": hit.fix.title}, "artifactChanges": [change]}]
    return result


def _artifact(hit: Hit) -> dict[str, str]:
    return _location(hit.span.unit.path)


def _location(path: str) -> dict[str, str]:
    return {"uri": ("file://" if path.startswith("/") else "") + quote(os.fsencode(path))}


def _region(hit: Hit) -> dict[str, Any]:
    span, unit = hit.span, hit.span.unit
    _, line, column = unit.file_position(span.line, span.column)
    _, end_line, end_column = unit.file_position(span.end_line, span.end_column)
    region: dict[str, Any] = {"startLine": line, "startColumn": column}
    if (end_line, end_column) > (line, column):
        region |= {"endLine": end_line, "endColumn": end_column}
    if span.text.strip():
        region["snippet"] = {"text": span.text}
    return region


def _replacement(edit: Edit) -> dict[str, Any]:
    unit = edit.span.unit
    _, line, column = unit.file_position(edit.span.line, edit.span.column)
    _, end_line, end_column = unit.file_position(edit.span.end_line, edit.span.end_column)
    region = {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}
    return {"deletedRegion": region, "insertedContent": {"text": edit.text}}


def _fingerprint(hit: Hit, seen: Counter[str]) -> str:
    """A fingerprint from the line's text, not its number, so that it stays the same when lines move."""
    parts = (hit.code, hit.span.unit.path, hit.span.text.strip())
    digest = hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:32]
    seen[digest] += 1
    return f"{digest}:{seen[digest]}"
