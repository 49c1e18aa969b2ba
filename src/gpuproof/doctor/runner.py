"""Runs the checks layer by layer and stops above a layer that failed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gpuproof.doctor.check import NO_GPU, Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.report import CheckResult, LayerReport, Report, State
from gpuproof.findings import Finding, Severity

CHECK_FAILED = "D001"
"""Code of the finding that a check itself raised: a bug in GPUproof, which must not hide what the others found."""


def examine(
    machine: Machine, checks: Sequence[Check[Any]], on_layer: Callable[[Layer], None] = lambda _: None
) -> Report:
    """Run the checks: the stack from the bottom up, the independent layers in parallel with it.

    Args:
        on_layer: called with each layer of the stack before its checks run, which may take long.
    """
    by_layer = {layer: [check for check in checks if check.layer is layer] for layer in Layer}
    with ThreadPoolExecutor(max_workers=16, thread_name_prefix="doctor") as pool:
        deferred = [check for check in checks if _needs_idle_gpus(machine, check)]
        independent = {
            layer: _start(machine, [check for check in by_layer[layer] if check not in deferred], pool)
            for layer in Layer
            if not layer.stacked
        }
        # Each of these readings runs in its own process: start them early.
        pool.submit(lambda: machine.packages)
        if machine.files.present:
            pool.submit(lambda: machine.cuda)
        stack = _run_stack(machine, by_layer, pool, on_layer)
        for check in deferred:
            independent[check.layer].append(pool.submit(_run_check, machine, check))
        return Report((*stack, *(_collect(layer, started) for layer, started in independent.items())))


def _needs_idle_gpus(machine: Machine, check: Check[Any]) -> bool:
    """Whether a check needs the GPUs for itself, as the benchmark does: it runs after the stack."""
    return machine.full and check.layer is Layer.ENVIRONMENT and not check.quick


def _run_stack(
    machine: Machine,
    by_layer: dict[Layer, list[Check[Any]]],
    pool: ThreadPoolExecutor,
    on_layer: Callable[[Layer], None],
) -> list[LayerReport]:
    reports: list[LayerReport] = []
    failed: LayerReport | None = None
    for layer in Layer:
        if not layer.stacked:
            continue
        if failed is not None:
            reports.append(LayerReport(layer, State.SKIPPED, reason=_skip_reason(failed)))
            continue
        on_layer(layer)
        report = _collect(layer, _start(machine, by_layer[layer], pool))
        if (
            machine.quick
            and report.state is State.NOT_APPLICABLE
            and any(not check.quick for check in by_layer[layer])
        ):
            report = LayerReport(layer, State.SKIPPED, reason="not run with --quick")
        reports.append(report)
        failed = report if report.blocks else None
    return reports


def _skip_reason(failed: LayerReport) -> str:
    if any(finding.code == NO_GPU for finding in failed.findings):
        return "no GPU to check"
    return f"depends on {failed.layer.label}, which failed"


def _start(
    machine: Machine, checks: Sequence[Check[Any]], pool: ThreadPoolExecutor
) -> list[Future[CheckResult]]:
    return [pool.submit(_run_check, machine, check) for check in checks if check.quick or not machine.quick]


def _collect(layer: Layer, started: Sequence[Future[CheckResult]]) -> LayerReport:
    results = tuple(future.result() for future in started)
    severities = {finding.severity for result in results for finding in result.findings}
    if Severity.ERROR in severities:
        state = State.FAILED
    elif severities:
        state = State.FINDINGS
    else:
        state = State.OK if any(result.applicable for result in results) else State.NOT_APPLICABLE
    return LayerReport(layer, state, results)


def _run_check(machine: Machine, check: Check[Any]) -> CheckResult:
    try:
        reading = check.read(machine)
        if reading is None:
            return CheckResult(check, applicable=False)
        return CheckResult(check, True, tuple(check.evaluate(reading)), check.summarize(reading))
    except Exception as error:  # noqa: BLE001 - a bug in one check must not hide what the others find
        return CheckResult(check, True, (_check_failed(check, error),))


def _check_failed(check: Check[Any], error: Exception) -> Finding:
    frames = traceback.extract_tb(error.__traceback__)
    return Finding(
        CHECK_FAILED,
        Severity.WARNING,
        f"The check `{check.name}` failed with {type(error).__name__}: {error}. Its subject was not checked.",
        tuple(f"{frame.name} in {frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames[-3:]),
        "This is a bug in GPUproof: please report it with the output of `gpuproof doctor --report`.",
    )
