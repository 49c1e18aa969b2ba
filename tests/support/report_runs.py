"""Runs to report on: verdicts with 1, 8 or 128 GPUs, of a minute or a week."""

from __future__ import annotations

import math
from typing import Any

from gpuproof.agent.verdict import USED, Bottleneck, Expectation, GpuVerdict, HostVerdict, Verdict
from gpuproof.agent.verdict.evidence import CodeLocation, RankSteps, RunEvent, Steps, StepTimes
from gpuproof.agent.verdict.schema import RankThroughput, Throughput
from gpuproof.gpu.telemetry import Series
from gpuproof.report.run_cost import Alternative
from gpuproof.report.run_report import RunData

GIB = 2**30
MINUTE, WEEK = 60.0, 604800.0
_GPUS_PER_HOST = 8
_PLAN = {
    "memory": {"shown": [14 * GIB, 17 * GIB, 20 * GIB], "measured": 18 * GIB},
    "time": {"shown": [0.2, 0.25, 0.31], "measured": 0.4},
}


def run_data(gpus: int, seconds: float, **changes: Any) -> RunData:
    """A run that used its GPUs, with everything that a report shows."""
    values = {
        "name": "train-20261129-1",
        "subtitle": "train on ml.g5.48xlarge in us-east-1",
        "verdict": verdict(gpus, seconds).to_json(),
        "ending": ("good", "exit code 0", "The run completed."),
        "findings": [("neutral", "advice", "ml.g5.xlarge would do the same for $1.00 less per hour.")],
        "facts": [
            ("image", "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8.0"),
            ("region", "us-east-1"),
        ],
        "cost": "$2.04: 15 min of ml.g5.48xlarge, $8.14 an hour",
        "alternatives": [
            Alternative("g5.48xlarge", "8 x A10G", 24 * GIB, "spot", 4.1, 1.03),
            Alternative("ml.g5.48xlarge", "8 x A10G", 24 * GIB, "on demand", 20.36, 5.09, is_current=True),
            Alternative(
                "ml.p4d.24xlarge", "8 x A100-40GB", 40 * GIB, "on demand", 25.2, None, is_derived=True
            ),
        ],
        "plan": _PLAN,
        "log": [f"Epoch {index}/200 loss {1 / index:.3f}" for index in range(1, 200)],
        "written": "Written by a test.",
    }
    return RunData(**{**values, **changes})


def verdict(gpus: int, seconds: float) -> Verdict:
    """A verdict with a series of 720 values for each GPU, as long runs have, or one for each second."""
    count = min(720, round(seconds))
    several = gpus > _GPUS_PER_HOST
    hosts = tuple(
        HostVerdict(
            f"algo-{index + 1}", USED, "", _GPUS_PER_HOST, _GPUS_PER_HOST, _GPUS_PER_HOST, seconds=seconds
        )
        for index in range(gpus // _GPUS_PER_HOST if several else 0)
    )
    return Verdict(
        USED,
        f"{gpus} of {gpus} GPUs worked, 84% busy on average while in use.",
        expectation=Expectation(gpus, "A10G", "instance_type: g5.48xlarge", required=True),
        gpus_expected=gpus,
        gpus_working=gpus,
        gpus_present=gpus,
        gpus=tuple(
            _gpu(index, count, seconds, f"algo-{index // _GPUS_PER_HOST + 1}" if several else None)
            for index in range(gpus)
        ),
        bottlenecks=(
            Bottleneck(
                "input",
                "input wait 31%: the DataLoader has no workers.",
                {"share": 0.31},
                head="input wait 31%",
            ),
        ),
        seconds=seconds,
        samples=count,
        driver_version="570.86.15",
        steps=_steps(seconds),
        throughput=Throughput(
            812.0,
            60000,
            seconds,
            (RankThroughput(0, 60000, seconds, 812.0),),
            tuple(800 + 10 * math.sin(index) for index in range(40)),
        ),
        hosts=hosts,
        events=(
            RunEvent(seconds * 0.08, "first-use", "first use of GPU 0", "algo-1" if several else None),
            *(RunEvent(seconds * (0.1 + 0.08 * epoch), "epoch", f"epoch {epoch + 1}") for epoch in range(10)),
            RunEvent(seconds * 0.5, "checkpoint", "checkpoint"),
            RunEvent(seconds * 0.99, "failure", "the script ended with exit code 1"),
        ),
    )


def _gpu(index: int, count: int, seconds: float, host: str | None) -> GpuVerdict:
    def value(at: int) -> float | None:
        if at < 0.08 * count:
            return 0.0
        return (
            None
            if count // 2 <= at < count // 2 + 3
            else round(78 + 14 * math.sin(at / 9 + index) - index % 5)
        )

    values = tuple(value(at) for at in range(count))
    busy = [each or 0.0 for each in values]
    return GpuVerdict(
        index % _GPUS_PER_HOST if host else index,
        name="NVIDIA A10G",
        worked=True,
        touched=True,
        judged_by="processes",
        first_use_s=seconds * 0.08,
        active_window=(seconds * 0.08, seconds * 0.97),
        mean_utilization=sum(busy) / count,
        p90_utilization=92.0,
        busy_s=seconds * 0.8,
        held_s=seconds * 0.9,
        peak_memory=18 * GIB,
        memory_total=24 * GIB,
        series=Series(
            seconds / count,
            values,
            tuple(2 * GIB + each * 0.16 * GIB for each in busy),
            tuple(60 + 2.2 * each for each in busy),
            tuple(38 + 0.4 * each for each in busy),
        ),
        host=host,
    )


def _steps(seconds: float) -> Steps:
    phases = {"input": 0.31, "copy": 0.04, "forward": 0.2, "backward": 0.33, "optimizer": 0.07, "rest": 0.05}

    def times(length: float, epoch: int | None = None) -> StepTimes:
        return StepTimes(1200, length, {name: share * length for name, share in phases.items()}, epoch)

    total = times(0.9 * seconds)
    location = CodeLocation("train.py", 41, "DataLoader", 1200, 0.28 * seconds, {"num_workers": 0})
    rank = RankSteps(0, None, "pytorch", "cuda", total, locations={"input": location}, median_step_s=0.25)
    return Steps(total, tuple(times(0.09 * seconds, epoch) for epoch in range(10)), (rank,))
