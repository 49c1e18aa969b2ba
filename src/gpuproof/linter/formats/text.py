"""Findings as text: location, message, the source line with a caret, what to change, and where to read more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.engine import CheckReport
from gpuproof.linter.rule import Hit
from gpuproof.linter.source.edit import Fix
from gpuproof.terminal.style import BOLD, CYAN, RED, YELLOW, Style
from gpuproof.util.humanize import pluralize

_COLOURS = {Severity.ERROR: RED, Severity.WARNING: YELLOW, Severity.NOTE: CYAN}
_INDENT = "    "


def render(report: CheckReport, *, colour: bool = False, width: int = 100) -> Iterator[str]:
    """The lines of a report, with a count at the end.

    Args:
        colour: whether to use ANSI colours.
        width: characters per line.
    """
    style = Style(colour, width)
    for hit in report.hits:
        yield from _hit(hit, style)
        yield ""
    yield from internal_errors(report, style)
    yield summary(report)


def location_text(hit: Hit) -> str:
    """The location of a finding: `train.py:12:5`, or `launch.ipynb:cell 3:12:5`."""
    location = hit.finding.location
    assert location is not None
    parts = [
        location.file,
        f"cell {hit.cell}" if hit.cell is not None else None,
        location.line,
        location.column,
    ]
    text = ":".join(str(part) for part in parts if part is not None)
    # A file name may contain line breaks; the first line of a finding must not.
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def summary(report: CheckReport) -> str:
    """The number of files, findings and available fixes, on one line."""
    files = pluralize(report.files, "file")
    errors = pluralize(len(report.internal_errors), "internal error")
    known = f" {pluralize(report.known, 'known finding')} of the baseline not shown." if report.known else ""
    if not report.hits:
        found = errors if report.internal_errors else "no new issues" if report.known else "no issues found"
        return f"{files} checked, {found}.{known}"
    counts = [
        pluralize(count, str(severity))
        for severity in Severity
        if (count := sum(hit.finding.severity is severity for hit in report.hits))
    ]
    if report.internal_errors:
        counts.append(errors)
    fixable = sum(1 for hit in report.hits if hit.fix is not None and hit.fix.safe)
    unsafe = sum(1 for hit in report.hits if hit.fix is not None and not hit.fix.safe)
    more = f" {fixable} can be fixed with --fix." if fixable else ""
    more += f" {unsafe}{' more' if fixable else ''} with --fix --unsafe-fixes." if unsafe else ""
    return f"{files} checked: {', '.join(counts)}.{known}{more}"


def internal_errors(report: CheckReport, style: Style | None = None) -> Iterator[str]:
    """The bugs of GPUproof that occurred, each with the file and the rules that were not checked."""
    style = style or Style(False, 100)
    for error in report.internal_errors:
        where = "".join(each if each.isprintable() else repr(each)[1:-1] for each in error.file)
        label = style.paint("internal error", RED)
        yield f"{style.paint(where, BOLD)}: {label}" if where else label
        yield from style.wrap(f"{error.message}.", "  ")
        yield from style.wrap(f"{error.remedy}.".replace("..", "."), "  = ")
        yield ""


def statistics(report: CheckReport) -> Iterator[str]:
    """The number of findings of each rule, the highest first."""
    counts = Counter((hit.code, hit.rule_name, str(hit.finding.severity)) for hit in report.hits)
    for (code, name, severity), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield f"{count:>6}  {code}  {severity:<7}  {name}"
    yield from internal_errors(report)
    yield summary(report)


def excerpt(hit: Hit, width: int = 100) -> list[str]:
    """The source line and the carets under it; empty for a blank line."""
    text = hit.span.text
    if not text.strip():
        return []
    start = hit.span.column - 1
    end = hit.span.end_column - 1 if hit.span.end_line == hit.span.line else len(text.rstrip())
    cut = len(text) - len(text.lstrip())
    # Of a very long line, show the part around the caret.
    if start - cut > width - 20:
        cut = max(0, start - width // 2)
    shown = text[cut : cut + width].rstrip().expandtabs(1)
    carets = max(1, min(end, cut + len(shown)) - start)
    return [shown, " " * (start - cut) + "^" * carets]


def fix_text(fix: Fix) -> str:
    """What a fix does, and the flags that apply it."""
    return f"{fix.title} ({'--fix' if fix.safe else '--fix --unsafe-fixes'})"


def _hit(hit: Hit, style: Style) -> Iterator[str]:
    finding = hit.finding
    tint = _COLOURS[finding.severity]
    yield f"{style.paint(location_text(hit), BOLD)}: {style.paint(f'{finding.severity} {finding.code}', tint)} {hit.rule_name}"
    source = excerpt(hit, style.width - len(_INDENT))
    if source:
        yield _INDENT + source[0]
        yield _INDENT + style.paint(source[1], tint)
    yield from style.wrap(finding.message, "  ")
    for line in finding.evidence:
        yield from style.wrap(line, "  - ")
    if finding.remedy:
        yield from style.wrap(finding.remedy, "  = ")
    if hit.fix is not None:
        yield from style.wrap(fix_text(hit.fix), "  + ")
    yield f"  help: gpuproof rule {finding.code}"
