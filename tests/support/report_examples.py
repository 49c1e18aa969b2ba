"""A plan, a comparison and an audit of plausible size, made without tracing, running or asking AWS."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

from gpuproof.account.audit.judge import NOT_MEASURED, Judgement, judge
from gpuproof.account.audit.row import Audit, AuditRow
from gpuproof.account.audit.usage import Samples, host_usage
from gpuproof.account.audit.workload import Workload
from gpuproof.account.cleanup.resource import Fleet, Kind, Unread
from gpuproof.agent.verdict import GpuVerdict, Throughput, Verdict
from gpuproof.agent.verdict.evidence import Steps, StepTimes
from gpuproof.app.account.audit import AuditRequest, AuditResult
from gpuproof.catalogue import Catalogue
from gpuproof.comparison.comparison import Side, compare_sides
from gpuproof.comparison.limits import check_limits
from gpuproof.comparison.measurements import measurements
from gpuproof.comparison.result import ComparisonResult
from gpuproof.gpu.telemetry import Series
from gpuproof.planning.estimates import FitOption, FitOptions
from gpuproof.planning.memory import estimate_memory, fit
from gpuproof.planning.recommendation import Conditions
from gpuproof.planning.result import PlanResult
from gpuproof.planning.script_plan import make_plan
from gpuproof.planning.tracing import TracedSizes
from gpuproof.trace.document import CATEGORIES, Memory, Note, Trace
from support.plan_examples import GIB, training

DAY = 86_400.0
NOW = 1_796_000_000.0  # 2026-11-30


@cache
def example_plan(mode: str = "training", gib: float = 11.0, **conditions: object) -> PlanResult:
    """A plan of a training step that needs more than a T4 has.

    Args:
        gib: of its activations.
    """
    plain = training(64, parameters=110_000_000, host_s=0.02, workers=4)
    sizes = {"parameter": 0.41, "gradient": 0.41, "optimizer": 0.82, "activation": gib, "temporary": 0.7}
    blocks = [(int(size * GIB), CATEGORIES.index(name)) for name, size in sizes.items()]
    memory = Memory(blocks, [1, 3, 4, 5, -5, 2, -4, 0, 4, 5, -5, -4, -2, 2, 0])
    work = [
        replace(operator, flops=operator.flops * 400, bytes=operator.bytes * 30)
        for operator in plain.operators
    ]
    trace = replace(
        plain,
        mode=mode,
        memory=memory,
        operators=work,
        optimizer="AdamW",
        assumptions=[Note("value", "A value that is only known on the GPU: assumed False.", "train.py", 10)],
        side_effects=[Note("write", "os.mkdir(/home/me/out)", "train.py", 12)],
    )
    made = make_plan(
        Catalogue.load(),
        TracedSizes(trace, None, "the data loader has no batch size"),
        Conditions(**{"epochs": 10, **conditions}),  # type: ignore[arg-type]
    )
    return replace(
        PlanResult.of(made, "train.py"),
        fit_options=_fit_options(trace, made.gpus[0].step) if mode == "training" else None,
    )


def _fit_options(trace: Trace, step: object) -> FitOptions:
    gpu = Catalogue.load().tables.gpus["T4"]
    smaller = Memory([(size // 3, kind) for size, kind in trace.memory.blocks], trace.memory.events)
    options: list[FitOption] = []
    for code, text, memory in (
        ("amp", "mixed precision", smaller),
        ("8-bit-optimizer", "8-bit optimizer", trace.memory),
    ):
        estimate = estimate_memory(replace(trace, memory=memory), gpu)
        options.append(FitOption(code, text, 64, estimate, fit(estimate, gpu), step))  # type: ignore[arg-type]
    return FitOptions("T4", tuple(options), ("activation checkpointing: the model has no repeated blocks",))


def example_verdict(
    gpus: int = 2, seconds: float = 600.0, busy: float = 80.0, memory: float = 9.0
) -> Verdict:
    """A verdict with GPUs that work, but for pauses, at a utilization."""
    step = max(1.0, seconds / 300)
    count = int(seconds / step)
    used = [busy if index % 40 > 3 else 5.0 for index in range(count)]
    found: list[GpuVerdict] = []
    for index in range(gpus):
        values = tuple(max(0.0, value - index) for value in used)
        series = {
            "memory": tuple(memory * GIB for _ in used),
            "power_w": tuple(60 + 2 * value for value in used),
            "temperature_c": tuple(45 + value / 4 for value in used),
        }
        known = {name: value for name, value in series.items() if name in Series.__dataclass_fields__}
        found.append(
            GpuVerdict(
                index,
                "NVIDIA A10G",
                worked=True,
                mean_utilization=sum(values) / count,
                peak_memory=int(memory * GIB),
                mean_power_w=60 + 2 * busy,
                series=Series(step, values, **known),
            )
        )
    rate = 40 * busy
    windows = tuple(rate * (1 + 0.01 * math.sin(index)) for index in range(64))
    waited = (1 - busy / 100) * seconds
    phases = {"input": waited, "forward": (seconds - waited) * 0.4, "backward": (seconds - waited) * 0.6}
    return Verdict(
        "used",
        f"{gpus} of {gpus} GPUs worked.",
        gpus_expected=gpus,
        gpus_working=gpus,
        gpus_present=gpus,
        gpus=tuple(found),
        seconds=seconds,
        steps=Steps(StepTimes(2000, seconds, phases)),
        throughput=Throughput(rate, int(rate * seconds), seconds, windows=windows),
    )


def example_comparison(runs: int = 3, limits: dict[str, float] | None = None) -> ComparisonResult:
    """Runs of which each is slower, and costs more, than the one before."""
    sides: list[Side] = []
    verdicts: dict[str, Verdict] = {}
    for number in range(runs):
        name = f"train-20261128-1636{number:02}-c0bf"
        verdict = example_verdict(seconds=600 + 90 * number, busy=85 - 7 * number, memory=9 + number)
        record = {
            "job_name": "train",
            "status": "Completed",
            "script_started": 0.0,
            "script_ended": 600.0 + 90 * number,
            "cost_usd": 0.17 + 0.03 * number,
            "instance_type": "g5.xlarge" if number % 2 == 0 else "g6.xlarge",
            "command": ["python", "train.py", "--lr", str(round(0.1 / (number + 1), 3))],
        }
        verdicts[name] = verdict
        sides.append(Side(name, (measurements(name, verdict, record),)))
    comparison = compare_sides(sides)
    return ComparisonResult(comparison, check_limits(comparison, list((limits or {}).items())), verdicts)


def example_audit(days: int = 30, jobs: int = 40) -> AuditResult:
    """An account with jobs that work, that run on the CPU, an idle endpoint and a notebook instance that is not measured."""
    since = NOW - days * DAY
    rows = [_job(number, since + (number + 0.3) * days * DAY / jobs) for number in range(jobs)]
    rows.append(_running(Kind.ENDPOINT, "chat", since, tuple(0.0 for _ in range(days * 24))))
    rows.append(_running(Kind.NOTEBOOK, "experiments", NOW - 4 * DAY, ()))
    rows.sort(key=lambda row: (-(row.wasted_usd or 0.0), -(row.workload.usd or 0.0)))
    unread = (
        Unread(
            "eu-west-1",
            "sagemaker",
            "ListEndpoints",
            "AccessDenied",
            "Not authorized.",
            denied=True,
            what="endpoints",
        ),
    )
    audit = Audit(tuple(rows), ("us-east-1", "eu-west-1"), since, NOW, unread, 126)
    return AuditResult(audit, AuditRequest())


def example_audit_job(**changes: Any) -> dict[str, Any]:
    """The document of `gpuproof audit JOB --format json`, of a host with eight GPUs for two minutes, and some values missing.

    Args:
        changes: of the job.
    """
    row = example_audit(jobs=4).to_json()["rows"][1]
    times = [f"2026-11-28T10:{minute:02}:00.000Z" for minute in (0, 1, 2, 5, 6)]
    host = {
        "host": "algo-1",
        "gpus": 8,
        "period_seconds": 60.0,
        "gpu": [[at, 400.0] for at in times],
        "gpu_memory": [[at, 80.0] for at in times],
        "cpu": [[at, 350.0] for at in times],
    }
    code = {
        "location": "s3://bucket/code.tar.gz",
        "program": "train.py",
        "files": 1,
        "findings": [
            {
                "code": "PT101",
                "severity": "error",
                "message": "The model stays on the CPU.",
                "remedy": "model.to(device)",
                "location": {"file": "train.py", "line": 5},
            }
        ],
        "problem": None,
    }
    known = {
        "code": "E101",
        "severity": "error",
        "cause": "The GPU's memory is full.",
        "remedy": "Use a smaller batch.",
        "location": {"file": "algo-1", "line": 41},
    }
    log = {"version": 1, "failed": True, "explanations": [known]}
    smaller = {"text": "ml.g5.12xlarge has 4 GPUs, and costs $13.27 an hour less."}
    more = {"utilization": [host], "log": log, "log_problem": None, "code": code, "smaller": smaller}
    return {"name": "bert", "jobs": [{**row, **more, **changes}], "problems": []}


def _job(number: int, start: float) -> AuditRow:
    busy = (0.0, 95.0, 60.0, 390.0)[number % 4]
    gpus = 8 if number % 4 == 3 else 1
    instance = "ml.g5.48xlarge" if gpus == 8 else "ml.g5.xlarge"
    values = tuple(busy for _ in range(120))
    return _row(
        Kind.TRAINING, f"bert-{number:02}", start, 120 * 60.0, values, 60.0, instance, gpus, is_running=False
    )


def _running(kind: Kind, name: str, start: float, values: tuple[float, ...]) -> AuditRow:
    return _row(kind, name, start, NOW - start, values, 3600.0, "ml.g5.xlarge", 1, is_running=True)


def _row(
    kind: Kind,
    name: str,
    start: float,
    seconds: float,
    values: tuple[float, ...],
    period: float,
    instance: str,
    gpus: int,
    *,
    is_running: bool,
) -> AuditRow:
    workload = Workload(
        kind,
        "us-east-1",
        name,
        status="InService" if is_running else "Completed",
        fleets=(Fleet(instance, 1),),
        gpus=gpus,
        gpu_name="A10G",
        created=start,
        start=start,
        end=None if is_running else start + seconds,
        active_seconds=seconds,
        billed_seconds=seconds,
        usd_per_hour=1.41 if gpus == 1 else 20.36,
        is_running=is_running,
        tags={"gpuproof:user": ("ann", "bob", "eve")[len(name) % 3]},
    )
    if not values:
        return AuditRow(
            workload,
            (),
            Judgement(NOT_MEASURED, "SageMaker publishes none of notebook instances.", gpus=gpus),
        )
    times = tuple(start + index * period for index in range(len(values)))
    memory = Samples(times, tuple(30.0 if any(values) or is_running else 0.0 for _ in values))
    host = host_usage("algo-1", gpus, period, seconds, Samples(times, values), None, memory)
    return AuditRow(workload, (host,), judge((host,), seconds))
