"""Reads the Python code blocks of Markdown files, each as a unit."""

from __future__ import annotations

import re

from gpuproof.linter.source.span import Segment, Unit

_FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*(\w*)")


def read(path: str, text: str) -> list[Unit]:
    """The Python code blocks of a file; blocks of other languages, or without a language, are ignored."""
    units: list[Unit] = []
    block: list[str] = []
    fence = language = ""
    first = indent = 0
    for number, line in enumerate(text.split("\n"), 1):
        match = _FENCE.match(line)
        if not fence and match is not None:
            indent, fence, language = len(match.group(1)), match.group(2), match.group(3).lower()
            first, block = number + 1, []
        elif fence and match is not None and match.group(2).startswith(fence) and not match.group(3):
            if language in ("python", "py", "python3"):
                name = f"{path}.{first}.py"
                segments = (Segment(1, first, None, indent),)
                units.append(Unit(path, "\n".join(block), "markdown", name=name, segments=segments))
            fence = ""
        elif fence:
            block.append(line[min(indent, len(line) - len(line.lstrip())) :])
    return units
