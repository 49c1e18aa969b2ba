"""Time of `gpuproof audit` for 1,000 jobs in 20 regions, with and without throttling, and who spends it.

    python bench/audit.py [--rounds 3] [--rate 10] [--latency 0] [--save]

Each region has 35 training jobs (five of them on two hosts), 10 processing and 5 transform jobs of an hour, with values of each host by the
minute. The emulator answers on the same machine, in a process of its own, so that its processor time is a part of what is measured, and is
shown. AWS's network has latency instead: `--latency 50` delays each answer by so many milliseconds. With throttling, SageMaker and
CloudWatch accept `--rate` requests a second in a region, and reject the others with `ThrottlingException`. Aim: under 30 s. `--save`
writes `bench/results/`, unless the machine is busy.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.account.account_bench import REGIONS, AccountBench

TRAINING, TWO_HOSTS, PROCESSING, TRANSFORM = 35, 5, 10, 5
"""Jobs in each region; some of the training jobs have two hosts."""
JOBS = REGIONS * (TRAINING + PROCESSING + TRANSFORM)
MINUTES = 60
_ACCOUNT = "123456789012"


def _check(document: dict[str, Any]) -> str | None:
    verdicts = Counter(row["verdict"] for row in document["rows"])
    return None if verdicts == {"used": JOBS} else f"the verdicts are {dict(verdicts)}"


def _add_jobs(account: Any, region: str, _support: Any) -> None:
    """The jobs of a region; half of them have tags."""
    for number in range(TRAINING + PROCESSING + TRANSFORM):
        age = 3600.0 * (2 + number)
        start = time.time() - age
        end, tags = start + 60 * MINUTES, {"team": "vision"} if number % 2 else {}
        name = f"job-{number}"
        if number < TRAINING:
            count = 2 if number < TWO_HOSTS else 1
            account.job(
                name,
                region,
                status="Completed",
                age=age,
                count=count,
                tags=tags,
                TrainingEndTime=end,
                BillableTimeInSeconds=60 * MINUTES,
                SecondaryStatusTransitions=[{"Status": "Training", "StartTime": start, "EndTime": end}],
            )
            hosts = [f"{name}/algo-{host + 1}" for host in range(count)]
            _publish(region, "Training", hosts, start)
        elif number < TRAINING + PROCESSING:
            account.job(
                name,
                region,
                kind="processing-job",
                status="Completed",
                age=age,
                tags=tags,
                ProcessingEndTime=end,
            )
            _publish(region, "Processing", [f"{name}/algo-1"], start)
        else:
            account.transform(name, region, age=age, seconds=60 * MINUTES, tags=tags)
            _publish(region, "Transform", [f"{name}/i-{number:017x}"], start + 60)


def _publish(region: str, word: str, hosts: list[str], start: float) -> None:
    """Values by the minute, put where PutMetricData puts them: 200,000 of them through requests take minutes."""
    from moto.cloudwatch.models import MetricDatum, cloudwatch_backends

    metrics = {"GPUUtilization": 85.0, "GPUMemoryUtilization": 40.0, "CPUUtilization": 300.0}
    stored = cloudwatch_backends[_ACCOUNT][region].metric_data
    first = start // 60 * 60
    for host in hosts:
        dimensions = [{"Name": "Host", "Value": host}]
        for name, value in metrics.items():
            stored += [
                MetricDatum(
                    f"/aws/sagemaker/{word}Jobs",
                    name,
                    value,
                    dimensions,
                    datetime.fromtimestamp(first + 60 * minute, UTC).replace(tzinfo=None),
                )
                for minute in range(MINUTES)
            ]


BENCH = AccountBench(
    Path(__file__),
    "audit",
    {"jobs": JOBS},
    f"{JOBS} jobs",
    30.0,
    ("sagemaker", "monitoring"),
    _add_jobs,
    _check,
)

if __name__ == "__main__":
    sys.exit(BENCH.main(__doc__, rate=10))
