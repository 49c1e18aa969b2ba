"""For a person: a line a layer that is well, and each finding with its evidence and what to type."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from gpuproof.doctor.runner import LayerReport, Report, State
from gpuproof.errors import ExitCode
from gpuproof.findings import Finding, Severity
from gpuproof.util.humanize import pluralize

_MARKS = {
    State.WELL: ("ok", "32"),
    State.FOUND: ("ok", "32"),
    State.BROKEN: ("!!", "31"),
    State.NOT_ASKED: ("..", "2"),
    State.NOTHING: ("--", "2"),
}
_COLOURS = {Severity.ERROR: "31;1", Severity.WARNING: "33", Severity.NOTE: "36"}
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
    painter = _Painter(colour, width)
    lines = [line for layer in report.layers for line in _layer(layer, least, painter)]
    return "\n".join([*lines, "", _sum(report, least)]) + "\n"


class _Painter:
    def __init__(self, colour: bool, width: int) -> None:
        self._colour = colour
        self._width = max(width, _NARROWEST) if width else 0

    def paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour and text else text

    def wrapped(self, text: str, first: str, rest: str) -> list[str]:
        if not self._width:
            return [first + text]
        return textwrap.wrap(
            text,
            self._width,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [first.rstrip()]


def _layer(layer: LayerReport, least: Severity, painter: _Painter) -> Iterator[str]:
    mark, code = _MARKS[layer.state]
    if layer.state is State.FOUND and any(one.severity is Severity.WARNING for one in layer.findings):
        mark, code = "! ", "33"
    head = f"{mark} {layer.name:<{_NAME}}"
    first, *rest = painter.wrapped(_in_short(layer), head, " " * len(head))
    yield painter.paint(mark, code) + first[len(mark) :]
    yield from rest
    shown = [finding for finding in layer.findings if finding.severity.rank <= least.rank]
    for finding in shown:
        yield from _finding(finding, painter)


def _in_short(layer: LayerReport) -> str:
    if layer.reason:
        return f"not asked: {layer.reason}"
    if layer.state is State.NOTHING:
        return "nothing to look at"
    asked = sum(outcome.asked for outcome in layer.outcomes)
    return ", ".join(layer.facts) or ("broken" if layer.state is State.BROKEN else pluralize(asked, "check"))


def _finding(finding: Finding, painter: _Painter) -> Iterator[str]:
    head = f"{_INDENT}{finding.code} {finding.severity}: "
    place = f"{finding.location}: " if finding.location else ""
    first, *rest = painter.wrapped(place + finding.message, head, _INDENT * 2)
    label = head.strip()
    yield first.replace(label, painter.paint(label, _COLOURS[finding.severity]), 1)
    yield from rest
    for line in finding.evidence:
        yield from (
            painter.paint(one, "2") for one in painter.wrapped(line, _INDENT * 2 + "| ", _INDENT * 2 + "|   ")
        )
    if finding.remedy:
        # Not wrapped: it is to be copied.
        yield f"{_INDENT * 2}{painter.paint('->', '32')} {finding.remedy}"


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
