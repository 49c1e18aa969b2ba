"""Cost of a run on EC2: seconds from launch to termination times the price at the launch, for each instance."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.backends.ec2.launch_record import LaunchRecord

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
