"""The type of a line in a requirements file, and its parser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuproof.linter.source.span import Span, Unit

_LINE = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*([^;#@]*)")


@dataclass(frozen=True, eq=False)
class Requirement:
    """One requirement.

    Args:
        name: normalised, such as `sagemaker-training`.
        constraint: the version specifier: `==2.1.0+cpu`, `>=2,<3`; empty without one.
    """

    name: str
    constraint: str
    text: str
    span: Span = field(repr=False)

    @property
    def pinned(self) -> str | None:
        """The version in `==2.1.0`; None for a range or a wildcard."""
        match = re.fullmatch(r"===?\s*([\w.+!-]+)", self.constraint)
        return match.group(1) if match else None


def requirements(unit: Unit) -> Iterator[Requirement]:
    """The requirements of a unit, without options, URLs and comments."""
    for number, line in enumerate(unit.lines, 1):
        match = _LINE.match(line)
        if match is None or line.lstrip().startswith("-") or "://" in line.partition("#")[0]:
            continue
        name = re.sub(r"[-_.]+", "-", match.group(1)).lower()
        begin = len(line) - len(line.lstrip()) + 1
        end = begin + len(line.partition("#")[0].strip())
        span = unit.span(number, begin, number, end)
        yield Requirement(name, match.group(3).strip().rstrip("\\").strip(), line.strip(), span)
