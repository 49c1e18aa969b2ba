"""Text for people: one line for a healthy layer, and each finding with its evidence and remedy."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.doctor.report import LayerReport, Report, State
from gpuproof.errors import ExitCode
from gpuproof.findings import Finding, Severity
from gpuproof.terminal.style import CYAN, DIM, GREEN, RED, YELLOW, Style
from gpuproof.util.humanize import pluralize

_MARKS = {
    State.OK: ("ok", GREEN),
    State.FINDINGS: ("ok", GREEN),
    State.FAILED: ("!!", RED),
    State.SKIPPED: ("..", DIM),
    State.NOT_APPLICABLE: ("--", DIM),
}
_COLOURS = {Severity.ERROR: f"{RED};1", Severity.WARNING: YELLOW, Severity.NOTE: CYAN}
_INDENT = " " * 4
_NAME_WIDTH = 14
_MIN_WIDTH = 60


def render_text(report: Report, least: Severity, *, colour: bool, width: int) -> str:
    """Render the report.

    Args:
        least: findings below this severity are only counted.
        colour: whether the terminal shows colours.
        width: characters per line; 0 for no wrapping.
    """
    style = Style(colour, max(width, _MIN_WIDTH) if width else 0)
    lines = [line for layer in report.layers for line in _layer(layer, least, style)]
    return "\n".join([*lines, "", _summary_line(report, least)]) + "\n"


def _layer(layer: LayerReport, least: Severity, style: Style) -> Iterator[str]:
    mark, code = _MARKS[layer.state]
    if layer.state is State.FINDINGS and any(
        finding.severity is Severity.WARNING for finding in layer.findings
    ):
        mark, code = "! ", YELLOW
    head = f"{mark} {layer.layer.label:<{_NAME_WIDTH}}"
    first, *rest = style.wrap(_layer_summary(layer), head, " " * len(head))
    yield style.paint(mark, code) + first[len(mark) :]
    yield from rest
    shown = [finding for finding in layer.findings if finding.severity.rank <= least.rank]
    for finding in shown:
        yield from _finding(finding, style)


def _layer_summary(layer: LayerReport) -> str:
    if layer.reason:
        return f"skipped: {layer.reason}"
    if layer.state is State.NOT_APPLICABLE:
        return "nothing to check"
    count = sum(result.applicable for result in layer.results)
    return ", ".join(layer.facts) or ("failed" if layer.state is State.FAILED else pluralize(count, "check"))


def _finding(finding: Finding, style: Style) -> Iterator[str]:
    head = f"{_INDENT}{finding.code} {finding.severity}: "
    first, *rest = style.wrap(finding.text, head, _INDENT * 2)
    label = head.strip()
    yield first.replace(label, style.paint(label, _COLOURS[finding.severity]), 1)
    yield from rest
    for line in finding.evidence:
        yield from (
            style.paint(item, DIM) for item in style.wrap(line, _INDENT * 2 + "| ", _INDENT * 2 + "|   ")
        )
    if finding.remedy:
        # Not wrapped, so that it can be copied.
        yield f"{_INDENT * 2}{style.paint('->', GREEN)} {finding.remedy}"


def _summary_line(report: Report, least: Severity) -> str:
    counts = dict.fromkeys(Severity, 0)
    for finding in report.findings:
        counts[finding.severity] += 1
    words = [pluralize(count, severity) for severity, count in counts.items() if count]
    hidden = sum(count for severity, count in counts.items() if severity.rank > least.rank)
    if not words:
        return "No problems found."
    if report.exit_code() == ExitCode.UNDECIDED:
        return "Nothing to check: this machine has no GPU."
    return ", ".join(words) + (f" ({hidden} not shown: --severity)" if hidden else "") + "."
