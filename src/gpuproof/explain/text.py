"""Filling a text in with what a log said."""

from __future__ import annotations

import re
from collections.abc import Mapping

_OPTIONAL = re.compile(r"\[\[(.*?)\]\]")
_FIELD = re.compile(r"\{(\w+)\}")


def fill(template: str, groups: Mapping[str, str]) -> str:
    """The template with its `{group}`s; a `[[part]]` with an empty group is left out.

    `{{` and `}}` stand for braces. A group that is missing outside a `[[part]]` leaves its name in capitals: a
    placeholder for the reader.
    """
    kept = _OPTIONAL.sub(lambda part: part[1] if _complete(part[1], groups) else "", template)
    braces = kept.replace("{{", "\0").replace("}}", "\1")
    filled = _FIELD.sub(lambda match: groups.get(match[1]) or match[1].upper(), braces)
    return filled.replace("\0", "{").replace("\1", "}")


def fields(template: str) -> set[str]:
    """The groups that the template names."""
    return set(_FIELD.findall(template.replace("{{", "").replace("}}", "")))


def _complete(part: str, groups: Mapping[str, str]) -> bool:
    return all(groups.get(name) for name in _FIELD.findall(part))
