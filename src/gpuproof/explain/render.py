"""Explanations as text for a person and as JSON for programs."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuproof.explain.explanation import Explanation
from gpuproof.explain.report import Report

if TYPE_CHECKING:
    from pathlib import Path

Labelled = tuple[str, str]
"""A label, and text of one or several lines."""

_COMMAND = re.compile(r"(?:aws|pip|docker|sudo|gpuproof|https?:)\S* ?")
_MOST_CONSEQUENCES = 6


def labelled(explanation: Explanation, width: int, *, short: bool = False) -> list[Labelled]:
    """One explanation as labelled texts, wrapped.

    Args:
        width: columns for the text, without the label.
        short: a line of the log's text, and without what it explains away.
    """
    head = f"{explanation.code}{_where(explanation)}"
    text = _cut(explanation.text, width) if short else _wrapped(explanation.text, width)
    lines = [
        (explanation.severity.value, f"{head}\n{text}"),
        ("cause", _wrapped(explanation.cause, width)),
        ("here", _wrapped(explanation.here or "", width)),
        ("do", _wrapped(explanation.remedy, width)),
    ]
    if not short:
        lines.append(("explains", "\n".join(_consequences(explanation.consequences, width))))
    return [(label, text) for label, text in lines if text]


def nothing(report: Report, name: str, width: int) -> list[Labelled]:
    """What is to be said where no error was recognised."""
    asides = [("note", _wrapped(text, width)) for text in report.asides]
    if not report.failed:
        return [("fine", f"Nothing wrong is recognised in {name}."), *asides]
    lines: list[Labelled] = [("unknown", f"No cause of a failure is recognised in {name}.")]
    if report.failure is not None:
        line, text = report.failure
        lines.append(("last", _wrapped(f"line {line}: {text}", width)))
    return [*lines, *asides]


def document(report: Report, name: str) -> str:
    """The whole as JSON, version 1."""
    return json.dumps(
        {
            "version": 1,
            "log": name,
            "failed": report.failed,
            "explanations": [one.to_json() for one in report.explanations],
            "last_failure": report.failure and {"line": report.failure[0], "text": report.failure[1]},
            "asides": list(report.asides),
        },
        indent=2,
    )


def _where(explanation: Explanation) -> str:
    if explanation.line is None:
        return ""
    log = f"{_last_part(explanation.log)}:" if explanation.log else "line "
    times = f", {explanation.count} times" if explanation.count > 1 else ""
    to = f", last in line {explanation.last_line}" if explanation.last_line else ""
    return f" ({log}{explanation.line}{times}{to})"


def _consequences(consequences: Sequence[Explanation], width: int) -> Iterator[str]:
    for one in consequences[:_MOST_CONSEQUENCES]:
        times = f" ({one.count} times)" if one.count > 1 else ""
        where = f"line {one.line}" if one.line else "the end"
        yield _cut(f"{where}{times}: {one.text}", width)
    if len(consequences) > _MOST_CONSEQUENCES:
        yield f"and {len(consequences) - _MOST_CONSEQUENCES} more"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 2] + " …"


def _wrapped(text: str, width: int) -> str:
    """Wrapped at blanks; a line that is one command is left whole, so that it can be copied."""
    return "\n".join(line for part in text.splitlines() for line in _lines(part, width))


def _lines(part: str, width: int) -> list[str]:
    if _COMMAND.match(part) and ". " not in part and "; " not in part:
        return [part]
    return textwrap.wrap(part, width, break_long_words=False, break_on_hyphens=False)


def _last_part(log: str | Path | None) -> str:
    return str(log).rpartition("/")[2]
