"""Reads the traceback of a Python exception: what was raised, by which package, and the user's line that led to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

HEADER = "Traceback (most recent call last)"
_FRAME = re.compile(r'\s*File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')
_NOTEBOOK_FRAME = re.compile(
    r"(?:File )?(?P<path>(?:~|/|[A-Z]:\\)[^:\s]*\.py):(?P<line>\d+), in (?P<function>[\w.<>]+)"
)
_CELL = re.compile(r"(?P<path>Cell In\s?\[\d+\]|<ipython-input-[\w-]+>)(?:, line | in .*?line )(?P<line>\d+)")
_BOX_FRAME = re.compile(r"│ (?P<path>[/~][^:│]*\.py):(?P<line>\d+) in (?P<function>[\w.<>]+)")
_EXCEPTION = re.compile(r"(?P<type>(?![A-Z]+:|[Ee]rror:|[Ww]arning:)[A-Za-z_][\w.]*)(?:: ?(?P<message>.*)|$)")
_CAUSES_NEXT = "The above exception was the direct cause of the following exception"
_END_OF_MESSAGE = re.compile(r"\s*$|Traceback |The above exception|During handling of|\[rank\d|[\w-]+ \| ")
_INSTALLED = re.compile(
    r"(?:(?:site|dist)-packages|\.djl\.ai/python/[\w.-]+)[/\\](?P<package>\w+)(?P<rest>[/\\.].*)?"
)
_INTERPRETER = re.compile(r"<frozen |<string>|[/\\]python3[\d.]*[/\\](?!.*-packages)|[/\\]s?bin[/\\][^/\\]+$")
_MESSAGE_LINES = 14
_LONGEST_MESSAGE = 600
PASSES_ON = {
    *("__getattr__", "__getattribute__", "_call_impl", "_wrapped_call_impl", "decorate_context"),
    *("wrapped_func", "inner_f", "_inner_fn", "error_handler"),
}
"""Functions that only pass a call or the access to an attribute on."""


class Frame(NamedTuple):
    """One call of a traceback.

    Attributes:
        source: the line of code, if the traceback quotes it.
    """

    path: str
    line: int
    function: str
    source: str

    @property
    def package(self) -> str:
        """The installed package that the file belongs to; empty for a file of the user or of Python itself."""
        found = _INSTALLED.search(self.path)
        return found["package"] if found else ""

    @property
    def passes_on(self) -> bool:
        """Whether the function only passes a call, the access to an attribute or a validation on."""
        return (
            self.function in PASSES_ON
            or self.package in ("pydantic", "pydantic_core")
            or self.path.endswith("torch/_ops.py")
        )

    @property
    def is_users(self) -> bool:
        """Whether the file is neither of an installed package nor of Python."""
        return not self.package and _INTERPRETER.search(self.path) is None


class Raised(NamedTuple):
    """An exception that ended in a traceback.

    Attributes:
        offset: index of the line that names the exception, from the header of the traceback.
        type: its name as printed, such as `torch.OutOfMemoryError`.
        message: its text, of several lines if it has any.
        frames: the outermost call first.
        causes_next: whether another exception follows that was raised from this one.
    """

    offset: int
    type: str
    message: str
    frames: tuple[Frame, ...]
    causes_next: bool

    @property
    def text(self) -> str:
        """The line that names the exception."""
        return f"{self.type}: {self.message}".partition("\n")[0].rstrip(": ")

    @property
    def raiser(self) -> Frame | None:
        """The innermost call that is not of Python itself and does more than pass a call or an attribute on."""
        code = [frame for frame in self.frames if frame.package or frame.is_users]
        return next(
            (frame for frame in reversed(code) if frame.function not in PASSES_ON), *code[-1:] or (None,)
        )

    @property
    def users_frame(self) -> Frame | None:
        """The innermost call in a file of the user."""
        return next((frame for frame in reversed(self.frames) if frame.is_users), None)


def read_traceback(lines: Sequence[str]) -> Raised | None:
    """Read the traceback that starts in the first line; `None` if the lines end before its exception.

    Tracebacks of Python, IPython and rich are known.

    Args:
        lines: the line with the header and what follows it, normalized.
    """
    body = _without_prefix(lines)
    frames: list[Frame] = []
    for index, line in enumerate(body[1:], start=1):
        if frame := _frame(body, index):
            frames.append(frame)
            continue
        found = _EXCEPTION.fullmatch(line.rstrip())
        if found and (frames or "." in found["type"] or found["type"][0].isupper()):
            message = _message(found["message"] or "", body[index + 1 :])
            follows = any(line.startswith(_CAUSES_NEXT) for line in body[index + 1 : index + 12])
            return Raised(index, found["type"], message, tuple(frames), follows)
        if HEADER in line:
            return None
    return None


def without_traceback(lines: Sequence[str]) -> Raised:
    """The exception of a line that stands alone, with the lines after it."""
    name, _, message = lines[0].partition(":")
    return Raised(0, name, _message(message.strip(), lines[1:]), (), causes_next=False)


def _without_prefix(lines: Sequence[str]) -> list[str]:
    """The lines without what a logger puts in front of each, such as `2025-10-30 20:20:53 - INFO - `."""
    before = lines[0].partition(HEADER)[0]
    if not before or "─" in before or before.rstrip().endswith(("Error", "Exception")):
        return list(lines)
    prefix = re.compile(
        re.sub(r"\d+", r"\\d+", re.escape(before.rstrip())) + " ?" * (len(before) - len(before.rstrip()))
    )
    return [line[found.end() :] if (found := prefix.match(line)) else line for line in lines]


def _frame(lines: Sequence[str], index: int) -> Frame | None:
    line = lines[index]
    for pattern in (_FRAME, _NOTEBOOK_FRAME, _CELL, _BOX_FRAME):
        if found := pattern.match(line):
            groups = found.groupdict()
            source = _source(lines[index + 1 : index + 8], pattern)
            return Frame(groups["path"], int(groups["line"]), groups.get("function") or "", source)
    return None


def _source(following: Sequence[str], pattern: re.Pattern[str]) -> str:
    if pattern is _FRAME:
        first = following[0] if following else ""
        is_source = first[:1].isspace() and _FRAME.match(first) is None
        return first.strip() if is_source else ""
    for line in following:
        if marked := re.match(r"(?:-+> ?\d+|│ ❱ *\d+) *│?\s*(.*?)\s*│?$", line):
            return marked[1]
    return ""


def _message(first: str, following: Sequence[str]) -> str:
    lines = [first]
    for line in following[:_MESSAGE_LINES]:
        if _END_OF_MESSAGE.match(line):
            break
        lines.append(line.strip())
    return "\n".join(lines)[:_LONGEST_MESSAGE]
