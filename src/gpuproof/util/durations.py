"""Reads durations that people write on the command lines of host programs; the client has `gpuproof.units.Duration`."""

from __future__ import annotations

import re

_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_PART = r"(\d+(?:\.\d+)?)\s*([dhms])(?:ays?|ours?|r|in(?:utes?)?|ec(?:onds?)?)?\s*"


def parse_duration(text: str) -> float:
    """Seconds of `60s`, `5m`, `1h30m`, or a plain number of seconds.

    Raises:
        ValueError: it is none of these, or has a unit twice.
    """
    plain = text.strip().lower()
    if re.fullmatch(r"\d+(?:\.\d+)?", plain):
        return float(plain)
    parts = re.findall(_PART, plain)
    units = [unit for _, unit in parts]
    if not re.fullmatch(f"(?:{_PART})+", plain) or len(set(units)) < len(units):
        raise ValueError(f"{text!r} is not a duration: write, for example, 45s, 5m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
