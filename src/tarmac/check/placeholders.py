"""Texts that stand for something still to be filled in: `<your-bucket>`, `YOUR_ACCOUNT_ID`, `xxxx`."""

from __future__ import annotations

import re

_TO_FILL_IN = re.compile(
    r"""
    <\s*(your|my|account|bucket|region|role|token|key|insert|enter|replace|put|add|name|fill)[^<>]*>
    | \byour[-_ ](s3[-_ ])?(own[-_ ])?(bucket|account|role|region|token|key|api|access|secret|image|prefix|project)\b
    | \byour[-_](s3[-_])?bucket([-_]name)?
    | \bYOUR_[A-Z][A-Z_]+ | \b(REPLACE|CHANGE|INSERT|ENTER|FILL)[-_ ]?(ME|THIS|HERE|WITH|YOUR|IN)\b | \bTODO\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
_EMPTY = re.compile(
    r"^(\W*|none|null|test|dummy|fake|secret|token|password|changeme|example\w*|placeholder|xxx+.*|\*+|\.+|\$\{.*|\{\{.*)$",
    re.IGNORECASE,
)


def to_fill_in(text: str) -> str | None:
    """The part of a text that nobody has filled in yet; None where there is none."""
    match = _TO_FILL_IN.search(text)
    return match.group(0) if match else None


def is_no_secret(text: str) -> bool:
    """Whether a text in a secret's place is certainly none: empty, a placeholder, a variable, or made of few letters."""
    stripped = text.strip()
    if _EMPTY.match(stripped) or to_fill_in(stripped) or "EXAMPLE" in stripped.upper() or "<" in stripped:
        return True
    return (
        len(set(stripped)) < 6
        or "xxx" in stripped.lower()
        or "..." in stripped
        or stripped.startswith("arn:")
    )
