"""Cost of a run on EC2: seconds from launch to termination times the price at the launch, for each instance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuproof.backends.ec2.launch_record import InterruptedRun, LaunchRecord

_LEAST_SECONDS = 60.0
"""Linux instances are billed by the second, but at least for a minute: https://aws.amazon.com/ec2/pricing/on-demand/"""


@dataclass(frozen=True)
class Bill:
    """The bill of a run, without its volumes and traffic.

    Args:
        seconds: billed seconds of each instance.
        usd: the cost of all instances; None if their price is unknown.
        spot_saving: the share of the on-demand price that spot capacity saved, from 0 to 1; None on demand.
    """

    seconds: float
    usd: float | None
    spot_saving: float | None


def bill_of(launch: LaunchRecord, launched: float | None, until: float | None) -> Bill | None:
    """The bill of a run so far; None if it is unknown how long its instances ran.

    Args:
        launched: when its instances were launched, in seconds since the epoch.
        until: when they ended, or the current time.
    """
    if launched is None or until is None:
        return None
    seconds = max(_LEAST_SECONDS, until - launched)
    rate = usd_per_second(launch)
    return Bill(seconds, None if rate is None else seconds * rate, spot_saving(launch))


@dataclass(frozen=True)
class Attempts:
    """What all attempts at a job cost together.

    Args:
        usd: their cost; None if a price is unknown.
        lost_seconds: the time that spot interruptions have lost; None if it is unknown for one of them.
        saved_usd: how much less that is than the on-demand price of the time that was not lost; None on demand, or if
            prices or the lost time are unknown.
    """

    usd: float | None
    lost_seconds: float | None
    saved_usd: float | None


def attempts_of(launch: LaunchRecord, bill: Bill | None, *, interrupted: bool = False) -> Attempts:
    """The cost of a run and of the attempts before it.

    Args:
        bill: of the run itself; None if it is not billed yet, or if it is unknown how long it ran.
        interrupted: whether a spot interruption has ended it.
    """
    runs = list(launch.interrupted)
    if bill is not None or interrupted:
        lost = launch.lost_seconds if interrupted else 0.0
        seconds, usd = (bill.seconds, bill.usd) if bill is not None else (0.0, None)
        runs.append(InterruptedRun(launch.run_id, seconds, usd, on_demand_usd_per_hour(launch), lost))
    total = _sum(run.usd for run in runs)
    saved = _sum(map(_saved_usd, runs)) if launch.spot else None
    return Attempts(total, _sum(run.lost_seconds for run in runs), saved)


def on_demand_usd_per_hour(launch: LaunchRecord) -> float | None:
    """The on-demand price of all instances of a run together; None if it is unknown."""
    price = launch.on_demand_usd_per_hour
    return None if price is None else price * launch.instance_count


def usd_per_second(launch: LaunchRecord) -> float | None:
    """The price of all instances of a run together, in USD per second; None if it is unknown."""
    if launch.usd_per_hour is None:
        return None
    return launch.usd_per_hour * launch.instance_count / 3600


def spot_saving(launch: LaunchRecord) -> float | None:
    """The share of the on-demand price that the spot price at the launch saves; None on demand."""
    if not launch.spot or launch.usd_per_hour is None or not launch.on_demand_usd_per_hour:
        return None
    return max(0.0, 1 - launch.usd_per_hour / launch.on_demand_usd_per_hour)


def _saved_usd(run: InterruptedRun) -> float | None:
    """How much less a run cost than its time that was not lost would have cost on demand; None if unknown."""
    if run.usd is None or run.on_demand_usd_per_hour is None or run.lost_seconds is None:
        return None
    return (run.seconds - run.lost_seconds) * run.on_demand_usd_per_hour / 3600 - run.usd


def _sum(amounts: Iterable[float | None]) -> float | None:
    """The sum of amounts; None if one is unknown."""
    total = 0.0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total
