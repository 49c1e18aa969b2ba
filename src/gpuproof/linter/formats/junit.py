"""Findings as JUnit XML: a suite per file and a case per finding; without findings, one passed case.

Errors and warnings are failed cases. Notes, which do not change the exit code, are passed cases with `system-out`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from gpuproof.findings import Severity
from gpuproof.linter.engine import CheckReport
from gpuproof.linter.formats.text import excerpt, location_text
from gpuproof.linter.rule import Hit

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot contain, escaped or not: https://www.w3.org/TR/xml/#charsets."""


def render(report: CheckReport) -> Iterator[str]:
    """The lines of the document."""
    count, errors = len(report.hits), report.internal_errors
    yield '<?xml version="1.0" encoding="utf-8"?>'
    totals = (
        f'tests="{max(count + len(errors), 1)}" failures="{_failures(report.hits)}" errors="{len(errors)}"'
    )
    yield f'<testsuites name="gpuproof check" {totals}>'
    if not count and not errors:
        yield '  <testsuite name="gpuproof check" tests="1" failures="0" errors="0">'
        yield f'    <testcase classname="gpuproof.check" name="{report.files} files"/>'
        yield "  </testsuite>"
    for path, found in groupby(report.hits, key=lambda hit: hit.span.unit.path):
        hits = list(found)
        attributes = f'tests="{len(hits)}" failures="{_failures(hits)}" errors="0"'
        yield f"  <testsuite name={_attribute(path)} {attributes}>"
        for hit in hits:
            yield from _case(hit)
        yield "  </testsuite>"
    for error in errors:
        yield f'  <testsuite name={_attribute(error.file or "gpuproof check")} tests="1" failures="0" errors="1">'
        yield f'    <testcase classname="gpuproof.check" name={_attribute(error.message)}>'
        yield f'      <error type="internal error" message={_attribute(error.remedy)}>'
        yield escape(_clean(error.trace)) + "</error>"
        yield "    </testcase>"
        yield "  </testsuite>"
    yield "</testsuites>"


def _failures(hits: Iterable[Hit]) -> int:
    return sum(_fails(hit) for hit in hits)


def _fails(hit: Hit) -> bool:
    """Whether a finding fails the check, as in `CheckReport.failed`."""
    return hit.finding.severity is not Severity.NOTE


def _case(hit: Hit) -> Iterator[str]:
    finding = hit.finding
    location = finding.location
    assert location is not None
    classname = re.sub(r"[/\\]", ".", re.sub(r"\.\w+$", "", hit.span.unit.path))
    name = f"{hit.code} {hit.rule_name} at {location_text(hit)}"
    body = "\n".join(
        (*excerpt(hit), finding.message, *finding.evidence, *([finding.remedy] if finding.remedy else []))
    )
    yield f"    <testcase classname={_attribute(classname)} name={_attribute(name)}>"
    if _fails(hit):
        yield f"      <failure type={_attribute(str(finding.severity))} message={_attribute(finding.message)}>"
        yield escape(_clean(body)) + "</failure>"
    else:
        yield f"      <system-out>{escape(_clean(body))}</system-out>"
    yield "    </testcase>"


def _attribute(text: str) -> str:
    return quoteattr(_clean(text))


def _clean(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
