"""What an account did with its GPUs in the last month: jobs, an endpoint and what CloudWatch has of them, for tests of pages."""

from __future__ import annotations

from typing import Any

from support.emulated_account import DAY, EmulatedAccount
from support.published_metrics import ended_training, publish_host

_DAY_H = 24.0


def add_last_month(account: EmulatedAccount) -> None:
    """Jobs of two people over four weeks: some worked, one ran on the CPU, one used two of eight GPUs; and an idle endpoint."""
    for number in range(4):
        add_job(account, f"resnet-{number}", [91.0] * 40, user="ann", days=26 - 6 * number)
    add_job(account, "bert-cpu", [0.0] * 60, user="ben", days=9, memory=0.0, cores=3.6)
    add_job(account, "gpt-small", [196.0] * 60, user="ben", days=4, instance="ml.g5.48xlarge")
    account.endpoint("chat-endpoint", tags={"team": "nlp"}, age=21 * DAY)


def add_job(
    account: EmulatedAccount,
    name: str,
    gpu: list[float],
    *,
    user: str,
    days: float,
    memory: float = 40.0,
    cores: float = 3.0,
    **job: Any,
) -> None:
    """A training job some days ago, with the utilization of its GPUs by the minute.

    Args:
        gpu: percent, summed over the GPUs, for each minute; memory likewise.
    """
    ago = ended_training(
        account, name, minutes=len(gpu), hours_ago=days * _DAY_H, tags={"owner": user}, **job
    )
    publish_host(account, name, gpu, ago=ago, memory=memory, cores=cores)
