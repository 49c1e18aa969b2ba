"""The order in which checks run, and what is skipped."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuproof.doctor.check import NO_GPU, Check, Layer
from gpuproof.doctor.machine import Machine, cached_reading
from gpuproof.doctor.report import Report, State
from gpuproof.doctor.runner import CHECK_FAILED, examine
from gpuproof.errors import ExitCode
from gpuproof.findings import Finding, Location, Severity


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(root=tmp_path, environment={"PATH": "/usr/bin:/bin"}, python="/bin/false")


def check(
    layer: Layer, *findings: Finding, name: str = "", ran: list[str] | None = None, **more: Any
) -> Check[Any]:
    def read(_: Machine) -> tuple[Finding, ...]:
        if ran is not None:
            ran.append(name or layer.name)
        return findings

    return Check(name or layer.name.lower(), layer, read, lambda reading: reading, **more)


def found(severity: Severity, code: str = "D999", **more: Any) -> Finding:
    return Finding(code, severity, "so it is", **more)


def states(report: Report) -> dict[str, State]:
    return {layer.layer.label: layer.state for layer in report.layers}


def test_nothing_runs_above_a_failed_layer_except_the_environment(machine: Machine) -> None:
    ran: list[str] = []
    checks = [
        check(Layer.HARDWARE, ran=ran),
        check(Layer.DRIVER, found(Severity.ERROR), ran=ran),
        check(Layer.FRAMEWORK, ran=ran),
        check(Layer.ENVIRONMENT, ran=ran),
    ]
    report = examine(machine, checks)
    assert sorted(ran) == ["DRIVER", "ENVIRONMENT", "HARDWARE"]
    assert states(report)["driver"] is State.FAILED
    assert states(report)["framework"] is State.SKIPPED
    assert report.layers[Layer.FRAMEWORK - 1].reason == "depends on driver, which failed"
    assert states(report)["environment"] is State.OK


@pytest.mark.parametrize("severity", [Severity.WARNING, Severity.NOTE])
def test_warnings_and_notes_do_not_stop_later_layers(severity: Severity, machine: Machine) -> None:
    ran: list[str] = []
    examine(machine, [check(Layer.DRIVER, found(severity)), check(Layer.COMPUTE, ran=ran)])
    assert ran == ["COMPUTE"]


def test_an_error_of_the_environment_stops_nothing(machine: Machine) -> None:
    ran: list[str] = []
    checks = [check(Layer.ENVIRONMENT, found(Severity.ERROR)), check(Layer.COMPUTE, ran=ran)]
    report = examine(machine, checks)
    assert ran == ["COMPUTE"]
    assert report.exit_code() == ExitCode.FAILED


def test_a_check_that_breaks_is_a_finding_and_hides_nothing(machine: Machine) -> None:
    def read(_: Machine) -> str:
        raise KeyError("surprise")

    broken = Check("surprising", Layer.HARDWARE, read, lambda _: ())
    report = examine(machine, [broken, check(Layer.HARDWARE, found(Severity.NOTE))])
    assert [finding.code for finding in report.findings] == [CHECK_FAILED, "D999"]
    assert "surprising" in report.findings[0].message
    assert "KeyError" in report.findings[0].message


def test_quick_skips_slow_checks_and_reports_it(machine: Machine) -> None:
    ran: list[str] = []
    slow = check(Layer.COMPUTE, ran=ran, quick=False)
    report = examine(replace(machine, quick=True), [slow])
    assert ran == []
    assert report.layers[Layer.COMPUTE - 1].reason == "not run with --quick"


def test_what_measures_waits_until_the_stack_is_through(machine: Machine) -> None:
    ran: list[str] = []
    checks = [
        check(Layer.ENVIRONMENT, name="rates", ran=ran, quick=False),
        check(Layer.COMPUTE, name="products", ran=ran, quick=False),
    ]
    report = examine(replace(machine, full=True), checks)
    assert ran == ["products", "rates"]
    assert states(report)["environment"] is State.OK


def test_a_check_with_nothing_to_look_at_is_not_a_check_that_is_well(machine: Machine) -> None:
    empty: Check[Any] = Check("empty", Layer.LIBRARIES, lambda _: None, lambda _: ())
    assert states(examine(machine, [empty]))["libraries"] is State.NOT_APPLICABLE


def test_findings_have_one_order_whatever_finishes_first(machine: Machine) -> None:
    findings = [
        found(Severity.NOTE, "D101"),
        found(Severity.ERROR, "D302", location=Location(device="GPU 1")),
        found(Severity.ERROR, "D302", location=Location(device="GPU 0")),
        found(Severity.WARNING, "D102"),
    ]
    wanted = ["D302 GPU 0", "D302 GPU 1", "D102 ", "D101 "]
    for order in (findings, findings[::-1]):
        report = examine(machine, [check(Layer.ENVIRONMENT, item) for item in order])
        assert [f"{finding.code} {finding.location or ''}" for finding in report.findings] == wanted


def test_the_same_finding_twice_is_one(machine: Machine) -> None:
    report = examine(machine, [check(Layer.DRIVER, found(Severity.NOTE)) for _ in range(2)])
    assert len(report.findings) == 1


@pytest.mark.parametrize(
    ("findings", "code", "strict"),
    [
        ([], ExitCode.OK, ExitCode.OK),
        ([found(Severity.NOTE)], ExitCode.OK, ExitCode.OK),
        ([found(Severity.WARNING)], ExitCode.OK, ExitCode.FAILED),
        ([found(Severity.ERROR)], ExitCode.FAILED, ExitCode.FAILED),
        ([found(Severity.ERROR, NO_GPU)], ExitCode.UNDECIDED, ExitCode.UNDECIDED),
        ([found(Severity.ERROR, NO_GPU), found(Severity.WARNING)], ExitCode.UNDECIDED, ExitCode.FAILED),
        ([found(Severity.ERROR, NO_GPU), found(Severity.ERROR)], ExitCode.FAILED, ExitCode.FAILED),
    ],
)
def test_exit_codes(findings: list[Finding], code: ExitCode, strict: ExitCode, machine: Machine) -> None:
    report = examine(machine, [check(Layer.ENVIRONMENT, *findings)])
    assert report.exit_code() == code
    assert report.exit_code(strict=True) == strict


def test_a_reading_is_taken_once_by_however_many_threads() -> None:
    taken: list[int] = []
    gate = threading.Barrier(8)

    class Thing:
        @cached_reading
        def reading(self) -> int:
            taken.append(1)
            return 7

    thing = Thing()
    got: list[int] = []

    def ask() -> None:
        gate.wait()
        got.append(thing.reading)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (got, taken) == ([7] * 8, [1])


def test_a_program_is_not_waited_for_longer_than_it_was_given(machine: Machine) -> None:
    result = machine.run_command("sleep", "600", seconds=0.2)
    assert result.code is None
    assert result.error == "sleep did not answer within 0.2 s"


def test_a_missing_program_is_reported(machine: Machine) -> None:
    assert machine.run_command("no-such-program").error == "no-such-program is not installed"
    assert machine.run_command("sh", "-c", "echo out; echo err >&2; exit 4").output == "out\n"
