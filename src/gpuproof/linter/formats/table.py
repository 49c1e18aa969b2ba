"""Findings as a table, for notebooks: the same content as the text."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.linter.engine import CheckReport
from gpuproof.linter.formats.text import excerpt, fix_text, internal_errors, location_text, summary
from gpuproof.linter.rule import Hit
from gpuproof.terminal.table import Block, Table

_HEADERS = ("LOCATION", "RULE", "SOURCE", "FINDING")


def blocks(report: CheckReport) -> Iterator[Block]:
    """A row for each finding, bugs of GPUproof that occurred, and the counts."""
    if report.hits:
        yield Table(_HEADERS, tuple(map(_row, report.hits)), paragraphs=(3,), code=(2,))
    yield from internal_errors(report)
    yield summary(report)


def _row(hit: Hit) -> tuple[str, ...]:
    finding = hit.finding
    lines = [finding.message, *(f"- {line}" for line in finding.evidence)]
    if finding.remedy:
        lines.append(f"= {finding.remedy}")
    if hit.fix is not None:
        lines.append(f"+ {fix_text(hit.fix)}")
    lines.append(f"help: gpuproof rule {finding.code}")
    rule = f"{finding.severity} {finding.code} {hit.rule_name}"
    return (location_text(hit), rule, "\n".join(excerpt(hit)), "\n".join(lines))
