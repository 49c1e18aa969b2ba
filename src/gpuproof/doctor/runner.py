"""Asks the checks, from the bottom up, and stops where a layer is broken."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.errors import ExitCode
from gpuproof.findings import Finding, Severity

NO_GPU = "D101"
"""The finding that there is no GPU to look at: no fault of the machine's."""
CHECK_FAILED = "D001"
"""The finding that a check itself broke: a bug of GPUproof's, which must not hide what the others found."""


class State(StrEnum):
    """What came of a layer."""

    WELL = "well"
    """Nothing found."""
    FOUND = "found"
    """Warnings or notes; what stands on it was asked."""
    BROKEN = "broken"
    """What stands on it was not asked."""
    NOT_ASKED = "not-asked"
    """Left out; the reason says why."""
    NOTHING = "nothing"
    """There is nothing here that it looks at."""


@dataclass(frozen=True)
class Outcome:
    """What came of one check; `asked` is false where it had nothing to look at."""

    check: Check[Any]
    asked: bool
    findings: tuple[Finding, ...] = ()
    said: str | None = None


@dataclass(frozen=True)
class LayerReport:
    """What came of one layer.

    Args:
        facts: what is worth saying of it.
        reason: why it was not asked.
    """

    layer: Layer
    state: State
    outcomes: tuple[Outcome, ...] = ()
    reason: str | None = None

    @property
    def name(self) -> str:
        """In lower case, as people read it."""
        return self.layer.name.lower()

    @property
    def facts(self) -> tuple[str, ...]:
        """What is worth saying of it, in the checks' order."""
        return tuple(dict.fromkeys(outcome.said for outcome in self.outcomes if outcome.said))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Worst first, then by code, place and words."""
        found = {finding for outcome in self.outcomes for finding in outcome.findings}
        return tuple(sorted(found, key=_order))


@dataclass(frozen=True)
class Report:
    """What the doctor found."""

    layers: tuple[LayerReport, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that was found, from the bottom layer up, worst first in each."""
        return tuple(finding for layer in self.layers for finding in layer.findings)

    def exit_code(self, *, strict: bool = False) -> ExitCode:
        """FAILED for errors (and warnings, if strict); UNDECIDED where there is no GPU to look at."""
        bad = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
        counted = [finding for finding in self.findings if finding.severity in bad and finding.code != NO_GPU]
        if counted:
            return ExitCode.FAILED
        return ExitCode.UNDECIDED if any(found.code == NO_GPU for found in self.findings) else ExitCode.OK


def all_checks() -> tuple[Check[Any], ...]:
    """Every check that GPUproof has."""
    from gpuproof.doctor.checks import (  # dozens of modules: not for `gpuproof --help`
        environment_checks,
        stack_checks,
    )

    return (*stack_checks.CHECKS, *environment_checks.CHECKS)


def examine(
    machine: Machine, checks: Sequence[Check[Any]], on_layer: Callable[[Layer], None] = lambda _: None
) -> Report:
    """Ask the checks. What stands on nothing is asked at once, beside the stack.

    Args:
        on_layer: told each layer of the stack before it is asked, which may take long.
    """
    by_layer = {layer: [check for check in checks if check.layer is layer] for layer in Layer}
    with ThreadPoolExecutor(max_workers=16, thread_name_prefix="doctor") as pool:
        later = [check for check in checks if _waits(machine, check)]
        beside = {
            layer: _start(machine, [one for one in by_layer[layer] if one not in later], pool)
            for layer in Layer
            if not layer.stacked
        }
        # Each is a process of its own: let them start meanwhile.
        pool.submit(lambda: machine.packages)
        if machine.files.present:
            pool.submit(lambda: machine.cuda)
        stack_checks = _climb(machine, by_layer, pool, on_layer)
        for check in later:
            beside[check.layer].append(pool.submit(_ask, machine, check))
        return Report((*stack_checks, *(_end(layer, started) for layer, started in beside.items())))


def _waits(machine: Machine, check: Check[Any]) -> bool:
    """Whether a check must have the GPUs to itself, as what measures rates must: it comes when the stack is through."""
    return machine.full and check.layer is Layer.SURROUNDINGS and not check.quick


def _climb(
    machine: Machine,
    by_layer: dict[Layer, list[Check[Any]]],
    pool: ThreadPoolExecutor,
    on_layer: Callable[[Layer], None],
) -> list[LayerReport]:
    reports: list[LayerReport] = []
    broken: LayerReport | None = None
    for layer in Layer:
        if not layer.stacked:
            continue
        if broken is not None:
            reports.append(LayerReport(layer, State.NOT_ASKED, reason=_because(broken)))
            continue
        on_layer(layer)
        report = _end(layer, _start(machine, by_layer[layer], pool))
        if (
            machine.quick
            and report.state is State.NOTHING
            and any(not check.quick for check in by_layer[layer])
        ):
            report = LayerReport(layer, State.NOT_ASKED, reason="left out by --quick")
        reports.append(report)
        broken = report if report.state is State.BROKEN else None
    return reports


def _because(broken: LayerReport) -> str:
    if any(finding.code == NO_GPU for finding in broken.findings):
        return "there is no GPU to look at"
    return f"stands on {broken.name}, which is broken"


def _start(machine: Machine, checks: Sequence[Check[Any]], pool: ThreadPoolExecutor) -> list[Future[Outcome]]:
    return [pool.submit(_ask, machine, check) for check in checks if check.quick or not machine.quick]


def _end(layer: Layer, started: Sequence[Future[Outcome]]) -> LayerReport:
    outcomes = tuple(future.result() for future in started)
    severities = {finding.severity for outcome in outcomes for finding in outcome.findings}
    if Severity.ERROR in severities:
        state = State.BROKEN
    elif severities:
        state = State.FOUND
    else:
        state = State.WELL if any(outcome.asked for outcome in outcomes) else State.NOTHING
    return LayerReport(layer, state, outcomes)


def _ask(machine: Machine, check: Check[Any]) -> Outcome:
    try:
        reading = check.read(machine)
        if reading is None:
            return Outcome(check, asked=False)
        return Outcome(check, True, tuple(check.evaluate(reading)), check.say(reading))
    except Exception as error:  # noqa: BLE001 - a bug in one check must not hide what the others find
        return Outcome(check, True, (_failed(check, error),))


def _failed(check: Check[Any], error: Exception) -> Finding:
    frames = traceback.extract_tb(error.__traceback__)
    return Finding(
        CHECK_FAILED,
        Severity.WARNING,
        f"The check of {check.name} broke: {type(error).__name__}: {error}. What it looks at was not checked.",
        tuple(f"{frame.name} in {frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames[-3:]),
        "This is a fault of GPUproof's: please report it with the output of `gpuproof doctor --report`.",
    )


def _order(finding: Finding) -> tuple[int, str, str, str]:
    return finding.severity.rank, finding.code, str(finding.location or ""), finding.message
