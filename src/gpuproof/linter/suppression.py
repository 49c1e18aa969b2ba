"""Comments that suppress findings: `# noqa: DS101`, `# gpuproof: ignore[DS101]`, `# gpuproof: ignore-file[DS101]`."""

from __future__ import annotations

import re
from functools import lru_cache

from gpuproof.linter.rule import Hit
from gpuproof.linter.source.span import Unit

_NOQA = re.compile(r"#\s*noqa(?!\w)(?:\s*:\s*([A-Z][A-Z0-9]*(?:[\s,]+[A-Z][A-Z0-9]*)*))?", re.IGNORECASE)
_IGNORE = re.compile(r"#\s*gpuproof:\s*ignore(?![\w-])(?:\[([\w\s,-]*)\])?")
_IGNORE_FILE = re.compile(r"#\s*gpuproof:\s*ignore-file(?:\[([\w\s,-]*)\])?")


def is_suppressed(hit: Hit) -> bool:
    """Whether a comment on the first or last line of a finding, or one for the whole file, suppresses it."""
    unit = hit.span.unit
    if not any(word in unit.source for word in ("noqa", "NOQA", "gpuproof:")):
        return False
    if _includes(hit, _file_codes(unit)):
        return True
    last = min(hit.span.end_line, len(unit.lines))
    lines = {hit.span.line, last}
    return any(_includes(hit, _codes(unit.lines[line - 1])) for line in lines if 0 < line <= len(unit.lines))


def _includes(hit: Hit, codes: frozenset[str] | None) -> bool:
    """Whether the codes of a comment include the finding; an empty set means all codes, None no comment."""
    if codes is None:
        return False
    return not codes or any(hit.code.startswith(code) or hit.rule_name == code.lower() for code in codes)


def _codes(line: str) -> frozenset[str] | None:
    match = _NOQA.search(line) or _IGNORE.search(line)
    return _split(match.group(1)) if match else None


@lru_cache(maxsize=64)
def _file_codes(unit: Unit) -> frozenset[str] | None:
    match = _IGNORE_FILE.search(unit.source)
    return _split(match.group(1)) if match else None


def _split(text: str | None) -> frozenset[str]:
    return frozenset(part.upper() for part in re.split(r"[\s,]+", text or "") if part)
