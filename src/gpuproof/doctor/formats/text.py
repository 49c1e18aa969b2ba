"""For a person: a line a layer that is well, and each finding with its evidence and what to type."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.doctor.runner import LayerReport, Report, State
from gpuproof.errors import ExitCode
from gpuproof.findings import Finding, Severity
from gpuproof.terminal.style import CYAN, DIM, GREEN, RED, YELLOW, Style
from gpuproof.util.humanize import pluralize

_MARKS = {
    State.WELL: ("ok", GREEN),
    State.FOUND: ("ok", GREEN),
    State.BROKEN: ("!!", RED),
    State.NOT_ASKED: ("..", DIM),
    State.NOTHING: ("--", DIM),
}
_COLOURS = {Severity.ERROR: f"{RED};1", Severity.WARNING: YELLOW, Severity.NOTE: CYAN}
_INDENT = " " * 4
_NAME = 14
_NARROWEST = 60


def render_text(report: Report, least: Severity, *, colour: bool, width: int) -> str:
    """The report.

    Args:
        least: findings below it are only counted.
        colour: whether the terminal shows colours.
        width: characters a line; 0 for no wrapping.
    """
    style = Style(colour, max(width, _NARROWEST) if width else 0)
    lines = [line for layer in report.layers for line in _layer(layer, least, style)]
    return "\n".join([*lines, "", _sum(report, least)]) + "\n"


def _layer(layer: LayerReport, least: Severity, style: Style) -> Iterator[str]:
    mark, code = _MARKS[layer.state]
    if layer.state is State.FOUND and any(one.severity is Severity.WARNING for one in layer.findings):
        mark, code = "! ", YELLOW
    head = f"{mark} {layer.name:<{_NAME}}"
    first, *rest = style.wrap(_in_short(layer), head, " " * len(head))
    yield style.paint(mark, code) + first[len(mark) :]
    yield from rest
    shown = [finding for finding in layer.findings if finding.severity.rank <= least.rank]
    for finding in shown:
        yield from _finding(finding, style)


def _in_short(layer: LayerReport) -> str:
    if layer.reason:
        return f"not asked: {layer.reason}"
    if layer.state is State.NOTHING:
        return "nothing to look at"
    asked = sum(outcome.asked for outcome in layer.outcomes)
    return ", ".join(layer.facts) or ("broken" if layer.state is State.BROKEN else pluralize(asked, "check"))


def _finding(finding: Finding, style: Style) -> Iterator[str]:
    head = f"{_INDENT}{finding.code} {finding.severity}: "
    place = f"{finding.location}: " if finding.location else ""
    first, *rest = style.wrap(place + finding.message, head, _INDENT * 2)
    label = head.strip()
    yield first.replace(label, style.paint(label, _COLOURS[finding.severity]), 1)
    yield from rest
    for line in finding.evidence:
        yield from (
            style.paint(one, DIM) for one in style.wrap(line, _INDENT * 2 + "| ", _INDENT * 2 + "|   ")
        )
    if finding.remedy:
        # Not wrapped: it is to be copied.
        yield f"{_INDENT * 2}{style.paint('->', GREEN)} {finding.remedy}"


def _sum(report: Report, least: Severity) -> str:
    counts = dict.fromkeys(Severity, 0)
    for finding in report.findings:
        counts[finding.severity] += 1
    words = [pluralize(count, severity) for severity, count in counts.items() if count]
    hidden = sum(count for severity, count in counts.items() if severity.rank > least.rank)
    if not words:
        return "All is well."
    if report.exit_code() == ExitCode.UNDECIDED:
        return "Undecided: there is no GPU to look at."
    return ", ".join(words) + (f" ({hidden} not shown: --severity)" if hidden else "") + "."
