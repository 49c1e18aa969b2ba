"""Prometheus's text format 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]
Line = tuple[str, Labels, float]
"""Name, labels and value."""


def family(name: str, kind: str, help_text: str, lines: Iterable[Line]) -> Iterator[str]:
    """The text of one metric; empty if it has no lines."""
    written = [f"{line}{_labels(labels)} {value:.17g}" for line, labels, value in lines]
    if written:
        yield f"# HELP {name} {help_text}"
        yield f"# TYPE {name} {kind}"
        yield from written


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
