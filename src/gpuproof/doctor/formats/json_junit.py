"""Formats for programs: versioned JSON, and JUnit XML."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from gpuproof.doctor.report import CheckResult, LayerReport, Report, State
from gpuproof.errors import ExitCode
from gpuproof.findings import Finding, Severity

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

VERSION = 1
"""Version of the JSON document; raised when a key is removed or changes its meaning, not when one is added."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_json(report: Report, least: Severity, code: ExitCode) -> str:
    """Render the report as JSON."""
    document: dict[str, Any] = {
        "version": VERSION,
        "exit_code": int(code),
        "layers": [_layer(layer) for layer in report.layers],
        "findings": [
            {"layer": layer.layer.key, **finding.to_json()}
            for layer in report.layers
            for finding in layer.findings
            if finding.severity.rank <= least.rank
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def render_junit(report: Report, least: Severity, *, strict: bool) -> str:
    """Render the report as JUnit XML: one suite per layer, one case per check.

    Errors are failures, with `strict` warnings too.
    """
    from xml.etree.ElementTree import Element, indent, tostring  # only needed here

    root = Element("testsuites", name="gpuproof doctor")
    for layer in report.layers:
        suite = Element("testsuite", name=layer.layer.key)
        cases = [_case(layer, result, least, strict=strict) for result in layer.results]
        cases = cases or [_skipped(layer, layer.layer.key, layer.reason or "nothing to check")]
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
        "name": layer.layer.key,
        "state": str(layer.state),
        "facts": list(layer.facts),
        "reason": layer.reason,
        "checks": [result.check.name for result in layer.results if result.applicable],
    }


def _case(layer: LayerReport, result: CheckResult, least: Severity, *, strict: bool) -> Element:
    from xml.etree.ElementTree import Element, SubElement

    if not result.applicable:
        return _skipped(layer, result.check.name, "nothing to check")
    case = Element("testcase", name=result.check.name, classname=f"gpuproof.doctor.{layer.layer.key}")
    failing = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    failures = [finding for finding in result.findings if finding.severity in failing]
    if failures:
        failure = SubElement(case, "failure", message=_valid_xml(failures[0].message), type=failures[0].code)
        failure.text = _valid_xml("\n\n".join(map(_finding_text, failures)))
    others = [
        finding
        for finding in result.findings
        if finding not in failures and finding.severity.rank <= least.rank
    ]
    if others or result.summary:
        texts = [result.summary or "", *map(_finding_text, others)]
        SubElement(case, "system-out").text = _valid_xml("\n\n".join(filter(None, texts)))
    return case


def _skipped(layer: LayerReport, name: str, reason: str) -> Element:
    from xml.etree.ElementTree import Element, SubElement

    case = Element("testcase", name=name, classname=f"gpuproof.doctor.{layer.layer.key}")
    SubElement(case, "skipped", message=f"skipped: {reason}" if layer.state is State.SKIPPED else reason)
    return case


def _finding_text(finding: Finding) -> str:
    head = f"{finding.code} {finding.severity}: {finding.text}"
    return "\n".join([head, *finding.evidence, *([f"-> {finding.remedy}"] if finding.remedy else [])])


def _valid_xml(text: str) -> str:
    return _NOT_XML.sub("?", text)
