"""Slurm's short form of host names: `gpu-[01-03,7],login1`.

Source: https://slurm.schedmd.com/scontrol.html (hostlist expressions)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_MOST_HOSTS = 65536
_ITEM = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")


def expand_hosts(text: str) -> list[str]:
    """All names in an expression, in its order.

    Raises:
        ValueError: it is none, or names more than 65,536 hosts.
    """
    names: list[str] = []
    for item in _ITEM.findall(text):
        for name in _expand(item):
            names.append(name)
            if len(names) > _MOST_HOSTS:
                raise ValueError(f"more than {_MOST_HOSTS} hosts")
    return names


def _expand(item: str) -> Iterator[str]:
    found = _BRACKETS.search(item)
    if found is None:
        yield item.strip()
        return
    for rest in _expand(item[found.end() :]) if found.end() < len(item) else [""]:
        for number in _numbers(found[1]):
            yield f"{item[: found.start()]}{number}{rest}"


def _numbers(ranges: str) -> Iterator[str]:
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if not last:
            yield first
            continue
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))
