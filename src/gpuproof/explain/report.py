"""Turns scanned logs into a report: fills in texts, adds advice and finds the root cause. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuproof.explain import exceptions
from gpuproof.explain.advice import ADVICE
from gpuproof.explain.context import Context
from gpuproof.explain.explanation import Advice, Explanation
from gpuproof.explain.patterns import KnownError
from gpuproof.explain.root_cause import ExplainedError, find_root_causes
from gpuproof.explain.scan import Occurrence, Scan, is_exception, scan_lines
from gpuproof.explain.traceback import Raised
from gpuproof.findings import Severity

LONGEST_TEXT = 400
"""Characters of a line that are shown."""

_OPTIONAL = re.compile(r"\[\[(.*?)\]\]")
_SETTING = re.compile(r"\b([A-Z][A-Z0-9_]{3,})=([^\s,;)]+)")
_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Report:
    """Errors found in one or several logs of the same event.

    Args:
        explanations: the root cause first.
        failure: number and text of the last line that shows a failure; `None` if there is no such line.
        asides: notes that are not findings.
        notes: what the log says about not using a GPU, if it is unknown whether the job should use one.
        failed: whether the program failed, as far as is known.
        unrecognized: where the last exception comes from, if its cause is unknown.
    """

    explanations: tuple[Explanation, ...]
    failure: tuple[int, str] | None
    asides: tuple[str, ...]
    failed: bool
    notes: tuple[Explanation, ...] = ()
    unrecognized: Explanation | None = None

    @property
    def cause_unknown(self) -> bool:
        """Whether it failed and no known error was found."""
        return self.failed and not any(
            explanation.severity is Severity.ERROR for explanation in self.explanations
        )


def explain_lines(
    lines: Iterable[str | bytes], context: Context, log: str | None = None
) -> list[Explanation]:
    """Find the known errors in the lines of a log, the root cause first.

    Args:
        lines: with or without line ends, prefixes, colours.
    """
    return list(make_report([scan_lines(lines, log)], context).explanations)


def fill_template(template: str, groups: Mapping[str, str]) -> str:
    """Replace the `{group}`s of a template; a `[[part]]` with an empty group is left out.

    `{{` and `}}` stand for braces. A group that is missing outside a `[[part]]` is replaced by its name in capitals,
    as a placeholder.
    """
    kept = _OPTIONAL.sub(
        lambda part: part[1] if all(groups.get(name) for name in _FIELD.findall(part[1])) else "", template
    )
    braces = kept.replace("{{", "\0").replace("}}", "\1")
    filled = _FIELD.sub(lambda match: groups.get(match[1]) or match[1].upper(), braces)
    return filled.replace("\0", "{").replace("\1", "}")


def template_fields(template: str) -> set[str]:
    """The names of the groups in a template."""
    return set(_FIELD.findall(template.replace("{{", "").replace("}}", "")))


def make_report(scans: Sequence[Scan], context: Context) -> Report:
    """Combine the logs of one event into one report."""
    facts: dict[str, str] = {}
    for scan in scans:
        facts = {**scan.facts, **facts}
    known = context.with_log_facts(facts)
    occurrences = [occurrence for scan in scans for occurrence in scan.occurrences.values()]
    relevant = [occurrence for occurrence in occurrences if _applies(occurrence.error, known)]
    failure = next((scan.failure for scan in scans if scan.failure), None)
    failed = bool(failure) if known.failed is None else known.failed
    errors = [
        ExplainedError(
            occurrence.error,
            replace(_explain(occurrence, known), severity=severity_in(occurrence, relevant, failure, failed)),
        )
        for occurrence in _merge(relevant)
    ]
    roots = find_root_causes(errors)
    exception = _explain_exception(scans, errors, roots) if failed else None
    # An error that only reports another one is worth less than an exception of which only the place is known.
    recognized = exception is not None and (exception.recognized or _failures(roots) != [])
    if exception is not None and recognized:
        roots = _below(exception.explained, errors)
    return Report(
        explanations=tuple(roots),
        failure=failure,
        asides=_asides(occurrences, relevant) if known.gpu_expected is None else (),
        failed=failed,
        notes=_notes(occurrences, relevant, known) if known.gpu_expected is None else (),
        unrecognized=exception.explained.explanation if exception is not None and not recognized else None,
    )


def severity_in(
    occurrence: Occurrence, others: Sequence[Occurrence], failure: tuple[int, str] | None, failed: bool
) -> Severity:
    """The severity of an error in a log that failed or not.

    Errors that count `error-if-failed` are warnings unless a failure follows them that has no cause of its own: an
    exit code, or an exception that is known to be a consequence. An exception of any other kind is not explained by
    them, known or not.

    Args:
        others: all errors of the log, some of which may be consequences of this one.
        failure: number and text of the last line that shows a failure.
        failed: whether the program failed.
    """
    if occurrence.error.when != "error-if-failed":
        return occurrence.error.severity
    if occurrence.failure is None:
        if any(_follows(other, occurrence) for other in others):
            return Severity.ERROR
        return Severity.ERROR if failed and failure is None else Severity.WARNING
    return Severity.WARNING if _has_own_cause(occurrence.failure) else Severity.ERROR


class _Exception(NamedTuple):
    """An exception that is in no table, explained by its kind."""

    explained: ExplainedError
    recognized: bool


def _explain_exception(
    scans: Sequence[Scan], errors: Sequence[ExplainedError], roots: Sequence[Explanation]
) -> _Exception | None:
    """The exception that ended the program, if no known error is its cause."""
    by_code = {error.code: error for error, _ in errors}
    if any(by_code[root.code].depth == "cause" or by_code[root.code].when for root in _failures(roots)):
        return None
    for scan in scans:
        explained = {at for seen in scan.occurrences.values() for at in (seen.line, seen.last_line)}
        index = exceptions.choose(scan.raised, explained, lambda text: bool(scan_lines([text]).occurrences))
        if index is not None:
            line, raised = scan.raised[index]
            before = scan.raised[index - 1][1] if index else None
            origin = before if before is not None and before.causes_next else None
            return _explain_kind(raised, origin, line, scan.log)
    return None


def _explain_kind(raised: Raised, origin: Raised | None, line: int, log: str | None) -> _Exception:
    kind = exceptions.kind(raised)
    error = exceptions.as_known_error(kind, raised)
    cause = " ".join(fill_template(kind.cause, kind.groups).split())
    cause = f"The {cause[4:]}" if cause.startswith("the ") else cause
    advice = exceptions.own_advice(raised)
    quoted = f'The message itself says: "{advice}"\n' if advice and advice.rstrip(". ") not in cause else ""
    first = f"It followed from {origin.text}." if origin else ""
    explanation = Explanation(
        code=error.code,
        severity=Severity.ERROR,
        text=_shorten(raised.text),
        log=log,
        line=line,
        last_line=None,
        count=1,
        cause=cause,
        here=" ".join(filter(None, (exceptions.where(raised), first))) or None,
        remedy=quoted + fill_template(kind.remedy, kind.groups),
        source=error.source,
        as_of=error.as_of,
        is_symptom=not kind.is_recognized,
    )
    recognized = (kind.is_recognized or bool(advice)) and not exceptions.is_own(raised)
    return _Exception(ExplainedError(error, explanation), recognized)


def _below(exception: ExplainedError, errors: Sequence[ExplainedError]) -> list[Explanation]:
    """The root causes with an exception before the errors that only report it; warnings have nothing to do with it."""
    failures = [error for error in errors if error.explanation.severity is Severity.ERROR]
    warnings = [error for error in errors if error.explanation.severity is not Severity.ERROR]
    return [*find_root_causes([exception, *failures]), *find_root_causes(warnings)]


def _failures(roots: Sequence[Explanation]) -> list[Explanation]:
    return [root for root in roots if root.severity is Severity.ERROR]


def _follows(other: Occurrence, occurrence: Occurrence) -> bool:
    """Whether another error is a consequence of this one, by its name and by the order of the log."""
    return (
        other.error.when == ""
        and other.error.severity is Severity.ERROR
        and occurrence.error.code in other.error.caused_by
        and other.last_line >= occurrence.line
    )


def _has_own_cause(failure: str) -> bool:
    found = [seen.error for seen in scan_lines(failure.splitlines()).occurrences.values()]
    if any(error.depth == "cause" and error.when == "" for error in found):
        return True
    return not found and is_exception(failure.partition("\n")[0])


def _applies(error: KnownError, context: Context) -> bool:
    if error.when == "gpu-expected":
        return bool(context.gpu_expected)
    return error.when != "efa-expected" or context.expects_efa


def _merge(occurrences: Iterable[Occurrence]) -> list[Occurrence]:
    """One occurrence per code: several hosts print the same error."""
    merged: dict[str, Occurrence] = {}
    for occurrence in occurrences:
        first = merged.get(occurrence.error.code)
        merged[occurrence.error.code] = (
            replace(first, count=first.count + occurrence.count) if first else occurrence
        )
    return list(merged.values())


def _explain(occurrence: Occurrence, context: Context) -> Explanation:
    error = occurrence.error
    groups = {**_with_cuda_level(occurrence.groups), "code": error.code}
    advice = [one for name in error.needs if (one := ADVICE[name](groups, context)) is not None]
    return Explanation(
        code=error.code,
        severity=error.severity,
        text=_shorten(occurrence.text),
        log=occurrence.log,
        line=occurrence.line or None,
        last_line=occurrence.last_line if occurrence.count > 1 else None,
        count=occurrence.count,
        cause=" ".join(fill_template(error.cause, groups).split()),
        here=" ".join(entry.here for entry in advice if entry.here) or None,
        remedy=_with_settings(_remedy(fill_template(error.remedy, groups), advice), context),
        source=error.source,
        as_of=error.as_of,
        is_symptom=error.depth != "cause",
    )


def _with_cuda_level(groups: dict[str, str]) -> dict[str, str]:
    found = groups.get("found", "")
    if not found.isdigit():
        return groups
    # torch prints the driver's CUDA version as 1000 * major + 10 * minor: 12080 is 12.8.
    return {**groups, "found_cuda": f"{int(found) // 1000}.{int(found) % 1000 // 10}"}


def _remedy(general: str, advice: Sequence[Advice]) -> str:
    specific = [entry.remedy for entry in advice if entry.remedy]
    if any(entry.instead for entry in advice if entry.remedy):
        return "\n".join(specific)
    return "\n".join([*specific, general, *(entry.otherwise for entry in advice if entry.otherwise)])


def _with_settings(remedy: str, context: Context) -> str:
    """The remedy with a note about variables in it that the job already sets."""
    environment = context.job.environment if context.job else {}
    done = [
        setting[0]
        for setting in dict.fromkeys(match.groups() for match in _SETTING.finditer(remedy))
        if environment.get(setting[0]) == setting[1]
    ]
    return f"{remedy}\nThis job already sets {', '.join(done)}." if done else remedy


def _notes(
    occurrences: Sequence[Occurrence], relevant: Sequence[Occurrence], context: Context
) -> tuple[Explanation, ...]:
    """The root causes among the errors that count only where a GPU is expected."""
    hidden = _hidden(occurrences, relevant)
    roots = find_root_causes(
        [ExplainedError(occurrence.error, _explain(occurrence, context)) for occurrence in _merge(hidden)]
    )
    return tuple(replace(root, severity=Severity.NOTE) for root in roots[:1])


def _asides(occurrences: Sequence[Occurrence], relevant: Sequence[Occurrence]) -> tuple[str, ...]:
    hidden = _hidden(occurrences, relevant)
    if not hidden:
        return ()
    first = hidden[0]
    quote = f'Line {first.line} reports that no GPU was used: "{_shorten(first.text, 120)}".'
    return (f"{quote} If the job should use one, pass --instance-type TYPE.",)


def _hidden(occurrences: Sequence[Occurrence], relevant: Sequence[Occurrence]) -> list[Occurrence]:
    """The occurrences that count only where a GPU is expected."""
    return [
        occurrence
        for occurrence in occurrences
        if occurrence.error.when == "gpu-expected" and occurrence not in relevant
    ]


def _shorten(text: str, longest: int = LONGEST_TEXT) -> str:
    printable = "".join(
        character if character.isprintable() or character == "\t" else " " for character in text
    )
    return printable if len(printable) <= longest else printable[: longest - 2] + " …"
