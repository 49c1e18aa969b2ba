"""Changes of a text that fix a finding."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.linter.source.span import Span


@dataclass(frozen=True)
class Edit:
    """Replaces the text of a span; an empty span inserts."""

    span: Span
    text: str


@dataclass(frozen=True)
class Fix:
    """The edits that fix a finding.

    Args:
        title: its effect, in the imperative: `Pass num_workers=4`.
        edits: edits of one file, which do not overlap.
        safe: whether the program's results cannot get worse; `--fix` applies only safe fixes.
    """

    title: str
    edits: tuple[Edit, ...]
    safe: bool = False
