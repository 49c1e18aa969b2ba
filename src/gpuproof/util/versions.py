"""Compares version numbers without the `packaging` library, which hosts may lack."""

from __future__ import annotations

import re

_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)")


def version_key(version: str) -> tuple[int, ...]:
    """The numbers of a version's release, to compare versions by: (2, 21, 0) for `2.21.0rc1` and `2.21.0+cu126`; empty if there are none."""
    found = _RELEASE.match(version)
    return tuple(int(part) for part in found[1].split(".")) if found else ()
