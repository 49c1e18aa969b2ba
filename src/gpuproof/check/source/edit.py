"""Changes of a text that fix a finding."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.check.source.span import Span


@dataclass(frozen=True)
class Edit:
    """One change of text: what stands in a span is replaced; a span without width inserts."""

    span: Span
    text: str


@dataclass(frozen=True)
class Fix:
    """What would mend a finding.

    Args:
        title: what it does, in the imperative: `Pass num_workers=4`.
        edits: changes of one file, that do not overlap.
        safe: whether the program's results cannot change for the worse; `--fix` applies these alone.
    """

    title: str
    edits: tuple[Edit, ...]
    safe: bool = False
