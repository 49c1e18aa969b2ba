"""From a scanned log to explanations: pure over what was seen and what is known beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpuproof.explain.advice import ADVICE, Advice
from gpuproof.explain.context import Context
from gpuproof.explain.explanation import Explanation
from gpuproof.explain.root_cause import Found, fold
from gpuproof.explain.scan import Scan, Sighting, scan_lines
from gpuproof.explain.text import fill
from gpuproof.findings import Severity

MOST_TEXT = 400
"""Characters of a line that are shown."""


@dataclass(frozen=True)
class Report:
    """What one or several logs of the same event say.

    Args:
        explanations: the root first.
        failure: the last line that shows a failure, and its number; `None` where nothing does.
        asides: what is worth a word and no finding.
        failed: whether it failed, as far as that is known.
    """

    explanations: tuple[Explanation, ...]
    failure: tuple[int, str] | None
    asides: tuple[str, ...]
    failed: bool

    @property
    def undecided(self) -> bool:
        """Whether it failed and nothing was recognised."""
        return self.failed and not any(one.severity is Severity.ERROR for one in self.explanations)


def explain_lines(
    lines: Iterable[str | bytes], context: Context, log: str | None = None
) -> list[Explanation]:
    """What the lines of a log mean, the root cause first; empty where nothing is recognised. Pure.

    Args:
        lines: with or without line ends, prefixes, colours.
        context: what is known of the machine, the job and the account.
        log: the log's name, for the locations.
    """
    return list(make_report([scan_lines(lines, log)], context).explanations)


def make_report(scans: Sequence[Scan], context: Context) -> Report:
    """What the logs of one event say together."""
    facts: dict[str, str] = {}
    for scan in scans:
        facts = {**scan.facts, **facts}
    known = context.with_log(facts)
    sightings = [sighting for scan in scans for sighting in scan.sightings.values()]
    real = [one for one in sightings if one.error.when != "gpu-expected" or known.gpu_expected]
    failure = next((scan.failure for scan in scans if scan.failure), None)
    return Report(
        explanations=tuple(fold([Found(one.error, _explanation(one, known)) for one in _merged(real)])),
        failure=failure,
        asides=_asides(sightings, real) if known.gpu_expected is None else (),
        failed=bool(failure) if known.failed is None else known.failed,
    )


def _merged(sightings: Iterable[Sighting]) -> list[Sighting]:
    """One sighting a code: several hosts say the same."""
    merged: dict[str, Sighting] = {}
    for one in sightings:
        first = merged.get(one.error.code)
        merged[one.error.code] = replace(first, count=first.count + one.count) if first else one
    return list(merged.values())


def _explanation(sighting: Sighting, context: Context) -> Explanation:
    error = sighting.error
    groups = {**_derived(sighting.groups), "code": error.code}
    advice = [found for name in error.needs if (found := ADVICE[name](groups, context)) is not None]
    return Explanation(
        code=error.code,
        severity=error.severity,
        text=_short(sighting.text),
        log=sighting.log,
        line=sighting.line or None,
        last_line=sighting.last_line if sighting.count > 1 else None,
        count=sighting.count,
        cause=_sentence(fill(error.cause, groups)),
        here=" ".join(one.here for one in advice if one.here) or None,
        remedy=_remedy(fill(error.remedy, groups), advice),
        source=error.source,
        as_of=error.as_of,
    )


def _derived(groups: dict[str, str]) -> dict[str, str]:
    found = groups.get("found", "")
    if not found.isdigit():
        return groups
    # torch prints the driver's CUDA level times 1000, plus ten times the minor version: 12080 is 12.8.
    return {**groups, "found_cuda": f"{int(found) // 1000}.{int(found) % 1000 // 10}"}


def _remedy(general: str, advice: Sequence[Advice]) -> str:
    special = [one.remedy for one in advice if one.remedy]
    if any(one.instead for one in advice if one.remedy):
        return "\n".join(special)
    return "\n".join([*special, general, *(one.otherwise for one in advice if one.otherwise)])


def _asides(sightings: Sequence[Sighting], real: Sequence[Sighting]) -> tuple[str, ...]:
    quiet = [one for one in sightings if one not in real]
    if not quiet:
        return ()
    one = quiet[0]
    said = f'Line {one.line} says that no GPU was used: "{_short(one.text, 120)}".'
    return (f"{said} If one was meant to be, say so: --instance-type TYPE.",)


def _short(text: str, most: int = MOST_TEXT) -> str:
    printable = "".join(
        character if character.isprintable() or character == "\t" else " " for character in text
    )
    return printable if len(printable) <= most else printable[: most - 2] + " …"


def _sentence(text: str) -> str:
    return " ".join(text.split())
