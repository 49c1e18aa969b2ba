"""For programs: JSON, versioned, and JUnit's XML."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from gpuproof.doctor.runner import LayerReport, Outcome, Report, State
from gpuproof.errors import ExitCode
from gpuproof.findings import Finding, Severity

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

VERSION = 1
"""Of the JSON document; it changes when a key goes or changes its meaning, not when one comes."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_json(report: Report, least: Severity, code: ExitCode) -> str:
    """The report as JSON."""
    document: dict[str, Any] = {
        "version": VERSION,
        "exit_code": int(code),
        "layers": [_layer(layer) for layer in report.layers],
        "findings": [
            {"layer": layer.name, **finding.to_json()}
            for layer in report.layers
            for finding in layer.findings
            if finding.severity.rank <= least.rank
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def render_junit(report: Report, least: Severity, *, strict: bool) -> str:
    """The report as JUnit's XML: a suite a layer, a case a check; findings that count are failures."""
    from xml.etree.ElementTree import Element, indent, tostring  # for this format alone

    root = Element("testsuites", name="gpuproof doctor")
    for layer in report.layers:
        suite = Element("testsuite", name=layer.name)
        cases = [_case(layer, outcome, least, strict=strict) for outcome in layer.outcomes]
        cases = cases or [_skipped(layer, layer.name, layer.reason or "nothing to look at")]
        suite.extend(cases)
        suite.set("tests", str(len(cases)))
        suite.set("failures", str(sum(case.find("failure") is not None for case in cases)))
        suite.set("errors", "0")
        suite.set("skipped", str(sum(case.find("skipped") is not None for case in cases)))
        root.append(suite)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _layer(layer: LayerReport) -> dict[str, Any]:
    return {
        "name": layer.name,
        "state": str(layer.state),
        "facts": list(layer.facts),
        "reason": layer.reason,
        "checks": [outcome.check.name for outcome in layer.outcomes if outcome.asked],
    }


def _case(layer: LayerReport, outcome: Outcome, least: Severity, *, strict: bool) -> Element:
    from xml.etree.ElementTree import Element, SubElement

    if not outcome.asked:
        return _skipped(layer, outcome.check.name, "nothing to look at")
    case = Element("testcase", name=outcome.check.name, classname=f"gpuproof.doctor.{layer.name}")
    bad = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    counted = [finding for finding in outcome.findings if finding.severity in bad]
    if counted:
        failure = SubElement(case, "failure", message=_legal(counted[0].message), type=counted[0].code)
        failure.text = _legal("\n\n".join(map(_in_words, counted)))
    others = [
        finding
        for finding in outcome.findings
        if finding not in counted and finding.severity.rank <= least.rank
    ]
    if others or outcome.said:
        said = [outcome.said or "", *map(_in_words, others)]
        SubElement(case, "system-out").text = _legal("\n\n".join(filter(None, said)))
    return case


def _skipped(layer: LayerReport, name: str, why: str) -> Element:
    from xml.etree.ElementTree import Element, SubElement

    case = Element("testcase", name=name, classname=f"gpuproof.doctor.{layer.name}")
    SubElement(case, "skipped", message=why if layer.state is not State.NOT_ASKED else f"not asked: {why}")
    return case


def _in_words(finding: Finding) -> str:
    place = f"{finding.location}: " if finding.location else ""
    head = f"{finding.code} {finding.severity}: {place}{finding.message}"
    return "\n".join([head, *finding.evidence, *([f"-> {finding.remedy}"] if finding.remedy else [])])


def _legal(text: str) -> str:
    return _NOT_XML.sub("?", text)
