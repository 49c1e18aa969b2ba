"""Explains an exception that no table of known errors has, by its kind: its type, its message and who raised it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple

from gpuproof.explain.patterns import KnownError, compile_pattern, data_rows
from gpuproof.explain.traceback import Frame, Raised
from gpuproof.findings import Severity

_SECONDARY = re.compile(
    r"(?:.*\.)?(?:CancelledError|KeyboardInterrupt|SystemExit|BrokenPipeError|ConnectionResetError|EOFError)"
)
"""What a process raises because another one has failed."""
_ADVICE = re.compile(
    r"(?i)\bpip3? install|\bplease\b|\btry (?:to |again|setting|using|running|\w+ing\b)|\byou (?:should|need to|must|can)\b|"
    r"\b(?:consider|make sure|ensure) |^(?:use|set|install|upgrade|update|run|pass|add|check|specify|call) |"
    r"\bdid you mean\b|\bhint\b|\bprobably\b|\bperhaps\b|\bthis (?:usually|may|might|can|is (?:likely|usually)) |\bneed to (?!be\b)|\b(?:should|must|needs? to) be\b|\buse `|\binstead\b"
)
_CAUSES = re.compile(
    r"(?i)\b(?:likely|possible|potential|common) (?:causes?|reasons?|solutions?|fix(?:es)?)\b"
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")


class Kind(NamedTuple):
    """A kind of exception.

    Attributes:
        code: of the explanation.
        is_recognized: whether type and message say what is wrong; otherwise only where it happened is known.
    """

    code: str
    is_recognized: bool
    cause: str
    remedy: str
    groups: Mapping[str, str]


def choose(
    tracebacks: Sequence[tuple[int, Raised]], explained: Set[int], is_known: Callable[[str], bool]
) -> int | None:
    """The index of the exception that ended the program: the last that is neither known nor a consequence of another.

    Args:
        tracebacks: line numbers and exceptions, in the order of the log.
        explained: numbers of lines that known errors explain.
        is_known: whether a known error explains the text of an exception.
    """
    unknown = [
        index
        for index, (line, raised) in enumerate(tracebacks)
        if line not in explained and not is_known(raised.text)
    ]
    primary = [index for index in unknown if _SECONDARY.fullmatch(tracebacks[index][1].type) is None]
    return max(primary or unknown, default=None)


def kind(raised: Raised) -> Kind:
    """The first kind in the table that an exception is of."""
    frame = raised.raiser
    for row in data_rows("exceptions"):
        if row["raiser"] not in _raisers(frame):
            continue
        if row["type"] and compile_pattern(f"(?:.*\\.)?(?:{row['type']})").fullmatch(raised.type) is None:
            continue
        found = compile_pattern(row["message"]).search(raised.message)
        if found is None:
            continue
        message = _first_sentence(raised.message) or raised.type
        groups = {
            "type": raised.type.rpartition(".")[2],
            "package": (frame.package if frame else "") or "the program",
            "message": message,
            "condition": frame.source.removeprefix("assert ") if frame else "",
            **{name: value.strip().rstrip(".") for name, value in found.groupdict().items() if value},
        }
        return Kind(row["code"], row["recognized"] == "yes", row["cause"], row["remedy"], groups)
    raise LookupError(raised.type)  # the last rows of the table match everything


def _first_sentence(message: str) -> str:
    first, _, following = message.partition("\n")
    joined = f"{first} {following.partition(chr(10))[0]}" if first.rstrip().endswith(":") else first
    return joined.rstrip(".: ")


def as_known_error(found: Kind, raised: Raised) -> KnownError:
    """The kind in the form of a known error, for the order of root causes."""
    return KnownError(
        code=found.code,
        area="exceptions",
        severity=Severity.ERROR,
        depth="cause",
        clues=(),
        pattern=re.escape(raised.text),
        near="",
        also="",
        when="",
        caused_by=(),
        needs=(),
        cause=found.cause,
        remedy=found.remedy,
        evidence="general-knowledge",
        source="general-knowledge",
        as_of="2026-11-28",
    )


def own_advice(raised: Raised) -> str:
    """What the message itself says about causes and remedies; empty if nothing."""
    if listed := _CAUSES.search(raised.message):
        return " ".join(raised.message[listed.start() :].split())
    sentences = [part.strip() for part in _SENTENCE.split(raised.message)]
    return " ".join(part for part in sentences if _ADVICE.search(part))


def is_own(raised: Raised) -> bool:
    """Whether the user's own code raised it on purpose: its message says all that there is to know."""
    frame = raised.raiser
    return frame is not None and not frame.package and frame.source.startswith("raise")


def where(raised: Raised) -> str:
    """Which code raised the exception, and the user's line that led to it."""
    frame, users = raised.raiser, raised.users_frame
    if frame is None:
        return ""
    if not frame.package:
        return f"{_file(frame)}{_quoted(frame)} raised it."
    inside = f"The package {frame.package} raised it in {_inside(frame)}{_quoted(frame)}"
    if users is None:
        return f"{inside}. No file of yours is in the traceback."
    return f"{inside}; {_file(users)} called it{_quoted(users)}."


def _raisers(frame: Frame | None) -> tuple[str, ...]:
    if frame is None:
        return ("",)
    return ("", "package", frame.package) if frame.package else ("", "script")


def _inside(frame: Frame) -> str:
    file = frame.path.replace("\\", "/").partition(f"-packages/{frame.package}/")[2] or frame.path
    return f"{file}, {frame.function}()" if frame.function.isidentifier() else file


def _file(frame: Frame) -> str:
    name = frame.path.replace("\\", "/").rpartition("/")[2]
    return f"{name}, line {frame.line}"


def _quoted(frame: Frame) -> str:
    is_whole = frame.source.count("(") == frame.source.count(")") and not frame.source.startswith("raise ")
    return f" ({frame.source})" if frame.source and is_whole else ""
