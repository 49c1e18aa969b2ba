"""Formats explanations as labelled text and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from gpuproof.explain.explanation import Explanation
from gpuproof.explain.report import Report
from gpuproof.terminal.style import wrap

LabelledText = tuple[str, str]
"""A label and its text of one or several lines."""

_COMMAND = re.compile(r"(?:aws|pip|docker|sudo|gpuproof|https?:)\S* ?")
_MAX_CONSEQUENCES = 6


def format_explanation(explanation: Explanation, width: int, *, short: bool = False) -> list[LabelledText]:
    """Format one explanation as labelled, wrapped texts.

    Args:
        width: columns for the text, without the label.
        short: one line of the log's text, and no consequences.
    """
    head = f"{explanation.code}{_position(explanation)}"
    text = _truncate(explanation.text, width) if short else _wrap(explanation.text, width)
    lines = [
        (explanation.severity.value, f"{head}\n{text}"),
        ("cause", _wrap(explanation.cause, width)),
        ("here", _wrap(explanation.here or "", width)),
        ("fix", _wrap(explanation.remedy, width)),
    ]
    if not short:
        lines.append(("explains", "\n".join(_consequence_lines(explanation.consequences, width))))
    return [(label, text) for label, text in lines if text]


def format_no_cause(report: Report, name: str, width: int) -> list[LabelledText]:
    """Format a report without errors: either nothing failed, or the cause is unknown."""
    notes = [("note", _wrap(text, width)) for text in report.asides]
    for note in report.notes:
        notes += [("cause", _wrap(note.cause, width)), ("fix", _wrap(note.remedy, width))]
    if not report.failed:
        return [("ok", f"No known error found in {name}."), *notes]
    lines: list[LabelledText] = [("unknown", f"Failed, cause not recognized: no known error in {name}.")]
    if report.failure is not None:
        line, text = report.failure
        lines.append(("last error", _wrap(f"line {line}: {text}", width)))
    if report.unrecognized is not None:
        lines.append(("where", _wrap(report.unrecognized.here or "", width)))
        lines.append(("fix", _wrap(report.unrecognized.remedy, width)))
    return [*[(label, text) for label, text in lines if text], *notes]


def format_json(report: Report, name: str) -> str:
    """Format the report as JSON, version 1."""
    return json.dumps(
        {
            "version": 1,
            "log": name,
            "failed": report.failed,
            "explanations": [explanation.to_json() for explanation in report.explanations],
            "last_failure": report.failure and {"line": report.failure[0], "text": report.failure[1]},
            "hints": list(report.asides),
            "notes": [note.to_json() for note in report.notes],
            "unrecognized": report.unrecognized and report.unrecognized.to_json(),
        },
        indent=2,
    )


def _position(explanation: Explanation) -> str:
    if explanation.line is None:
        return ""
    log = f"{str(explanation.log).rpartition('/')[2]}:" if explanation.log else "line "
    times = f", {explanation.count} times" if explanation.count > 1 else ""
    last = f", last in line {explanation.last_line}" if explanation.last_line else ""
    return f" ({log}{explanation.line}{times}{last})"


def _consequence_lines(consequences: Sequence[Explanation], width: int) -> Iterator[str]:
    for consequence in consequences[:_MAX_CONSEQUENCES]:
        times = f" ({consequence.count} times)" if consequence.count > 1 else ""
        where = f"line {consequence.line}" if consequence.line else "failure reason"
        yield _truncate(f"{where}{times}: {consequence.text}", width)
    if len(consequences) > _MAX_CONSEQUENCES:
        yield f"and {len(consequences) - _MAX_CONSEQUENCES} more"


def _truncate(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 2] + " …"


def _wrap(text: str, width: int) -> str:
    """Wrap at spaces; a line that is one command stays whole, so that it can be copied."""
    return "\n".join(line for part in text.splitlines() for line in _wrap_line(part, width))


def _wrap_line(part: str, width: int) -> list[str]:
    if _COMMAND.match(part) and ". " not in part and "; " not in part:
        return [part]
    return wrap(part, width)
