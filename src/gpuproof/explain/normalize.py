"""Strips colours, time stamps and the prefixes of log collectors and launchers from the lines of a log."""

from __future__ import annotations

import json
import re

from gpuproof.util.log import without_escapes

_JSON_MESSAGE = re.compile(r'^\s*[{"].*?"(?:message|log|msg)"\s*:\s*("(?:[^"\\]|\\.)*")')
_PRETTY_MESSAGE = re.compile(r'^\s*"(?:message|log|msg)"\s*:\s*("(?:[^"\\]|\\.)*"),?$')

# Prefixes of collectors and launchers. One space after a prefix belongs to it, the rest is the line's indentation.
_PREFIXES = re.compile(
    r"""^(?:
      \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?[ \t]?    # 2026-11-21T10:11:12.123Z
    | \[\d+,(?:mpirank:)?\d+(?:,[\w.-]+)?\]<std(?:out|err|diag)>:                         # [1,mpirank:0,algo-1]<stderr>:
    | (?:\x20{0,2})?[\w.-]*algo-\d+(?:[-_]\w+)*\s*\|[ ]?                                  # algo-1-abcd1  |
    | [\w./-]*/algo-\d+-\d{6,}[ \t]                                                       # JOB/algo-1-1700000000
    | \[(?:rank|default|Rank[ ]?)\d+\]:?[ ]?                                              # [rank0]:
    | \([\w.]+(?:\ \w+=[\w.]+)*\ pid=\d+(?:,\ ip=[\d.]+)?\)[ ]                             # (train pid=123, ip=10.0.0.1)
    | [A-Z][a-z]{2}\ [ \d]\d\ \d\d:\d\d:\d\d\ \S+\ [\w.-]+(?:\[\d+\])?:[ ]                # Nov 21 10:11:12 host kernel:
    | (?:DEBUG|INFO|WARNING|ERROR)\ \d\d-\d\d\ [\d:]+\ \[[\w./]+:\d+\][ ]                    # ERROR 05-06 01:55:26 [core.py:383] (vLLM)
    | \[\d{4}-\d\d-\d\d\ [\d:]+(?:\ [A-Z]+\d+)+\][ ]                                       # [2025-06-01 10:00:00 TP0] (SGLang)
    | \#\d+\ \d+\.\d+[ ]                                                                # #12 5.321 (docker build)
    | \[(?:INFO|WARN|ERROR)\s*\]\ W-\S+\ \S+\ -[ ]                                       # [INFO ] W-9000-model-stdout MODEL_LOG - (TorchServe)
    | \[?(?:INFO|WARN|ERROR)\s*\]?\s+PyProcess\ (?:-\ )?\S+:[ ]                              # INFO  PyProcess W-107-model-stdout: (DJL)
    | <\d+>                                                                               # <4> (kernel log level)
    | \[\s*\d+\.\d{6}\][ ]                                                                # [  123.456789]
    )""",
    re.X,
)
_MAX_PREFIXES = 5


def normalize_line(raw: bytes) -> str:
    """The program's own text of a line; several lines if a collector packed them into one JSON object.

    Args:
        raw: one line, or the part after its last carriage return.
    """
    text = without_escapes(raw.decode("utf-8", "replace").rstrip("\r\n"))
    if '"' in text and (wrapped := _JSON_MESSAGE.match(text) or _PRETTY_MESSAGE.match(text)):
        text = _unwrap(wrapped[1], text)
    for _ in range(_MAX_PREFIXES):
        match = _PREFIXES.match(text)
        if match is None:
            break
        text = text[match.end() :]
    return text


def _unwrap(quoted: str, text: str) -> str:
    try:
        return str(json.loads(quoted)).rstrip("\n")
    except ValueError:
        return text
