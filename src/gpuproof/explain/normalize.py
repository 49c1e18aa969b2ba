"""A log's line as the program meant it: without colours, progress bars, time stamps and what collectors put before."""

from __future__ import annotations

import json
import re

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_JSON_MESSAGE = re.compile(r'^\s*[{"].*?"(?:message|log|msg)"\s*:\s*("(?:[^"\\]|\\.)*")')
_PRETTY_MESSAGE = re.compile(r'^\s*"(?:message|log|msg)"\s*:\s*("(?:[^"\\]|\\.)*"),?$')

# What a collector or a launcher puts before a line. One blank after it is its own, the rest is the line's indentation.
_PREFIXES = re.compile(
    r"""^(?:
      \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?[ \t]?    # 2026-11-21T10:11:12.123Z
    | \[\d+,(?:mpirank:)?\d+(?:,[\w.-]+)?\]<std(?:out|err|diag)>:                         # [1,mpirank:0,algo-1]<stderr>:
    | (?:\x20{0,2})?[\w.-]*algo-\d+(?:[-_]\w+)*\s*\|[ ]?                                  # algo-1-abcd1  |
    | [\w./-]*/algo-\d+-\d{6,}[ \t]                                                       # JOB/algo-1-1700000000
    | \[(?:rank|default|Rank[ ]?)\d+\]:?[ ]?                                              # [rank0]:
    | \([\w.]+\ pid=\d+(?:,\ ip=[\d.]+)?\)[ ]                                             # (train pid=123, ip=10.0.0.1)
    | [A-Z][a-z]{2}\ [ \d]\d\ \d\d:\d\d:\d\d\ \S+\ [\w.-]+(?:\[\d+\])?:[ ]                # Nov 21 10:11:12 host kernel:
    | <\d+>                                                                               # <4> of the kernel
    | \[\s*\d+\.\d{6}\][ ]                                                                # [  123.456789]
    )""",
    re.X,
)
_MOST_PREFIXES = 5


def clean(raw: bytes) -> str:
    """The text of a line; several lines where a collector had packed them into one.

    Args:
        raw: one line, or the part of it that a terminal would show after its last carriage return.
    """
    text = raw.decode("utf-8", "replace").rstrip("\r\n")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if '"' in text and (packed := _JSON_MESSAGE.match(text) or _PRETTY_MESSAGE.match(text)):
        text = _unpacked(packed[1], text)
    for _ in range(_MOST_PREFIXES):
        match = _PREFIXES.match(text)
        if match is None:
            break
        text = text[match.end() :]
    return text


def _unpacked(quoted: str, text: str) -> str:
    try:
        return str(json.loads(quoted)).rstrip("\n")
    except ValueError:
        return text
