"""What the doctor found: `Report`, with a `LayerReport` for each layer and a `CheckResult` for each check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpuproof.doctor.check import NO_GPU, Check, Layer
from gpuproof.errors import ExitCode
from gpuproof.findings import Finding, Severity


class State(StrEnum):
    """State of a layer; the values are those of the JSON format."""

    OK = "well"
    """No findings."""
    FINDINGS = "found"
    """Warnings or notes; the layers above were checked."""
    FAILED = "broken"
    """Errors; the layers above were checked only if none of the errors concerns them."""
    SKIPPED = "not-asked"
    """Not checked; the reason is in the report."""
    NOT_APPLICABLE = "nothing"
    """The machine has nothing for this layer to check."""


@dataclass(frozen=True)
class CheckResult:
    """Result of one check.

    Args:
        applicable: whether the check had something to check.
        summary: a few words about what is healthy; `None` for nothing.
    """

    check: Check[Any]
    applicable: bool
    findings: tuple[Finding, ...] = ()
    summary: str | None = None


@dataclass(frozen=True)
class LayerReport:
    """Result of one layer.

    Args:
        results: of its checks, in their order.
    """

    layer: Layer
    state: State
    results: tuple[CheckResult, ...] = ()
    reason: str | None = None

    @property
    def blocks(self) -> bool:
        """Whether an error makes the layers above pointless."""
        return any(
            finding.severity is Severity.ERROR
            for result in self.results
            if result.check.blocking
            for finding in result.findings
        )

    @property
    def facts(self) -> tuple[str, ...]:
        """The checks' summaries, in their order, without duplicates."""
        return tuple(dict.fromkeys(result.summary for result in self.results if result.summary))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Worst first, then by code, location and message; without duplicates."""
        found = {finding for result in self.results for finding in result.findings}
        return tuple(sorted(found, key=_sort_key))


@dataclass(frozen=True)
class Report:
    """Result of all layers, from the bottom up."""

    layers: tuple[LayerReport, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, from the bottom layer up, worst first in each."""
        return tuple(finding for layer in self.layers for finding in layer.findings)

    def exit_code(self, *, strict: bool = False) -> ExitCode:
        """FAILED for errors (with `strict` also for warnings); UNDECIDED if there is no GPU to check."""
        failing = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
        if any(finding.severity in failing and finding.code != NO_GPU for finding in self.findings):
            return ExitCode.FAILED
        return ExitCode.UNDECIDED if any(found.code == NO_GPU for found in self.findings) else ExitCode.OK


def _sort_key(finding: Finding) -> tuple[int, str, str, str]:
    return finding.severity.rank, finding.code, str(finding.location or ""), finding.message
