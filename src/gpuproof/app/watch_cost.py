"""What a watched program has cost, by the instance of its report and the catalogue."""

from __future__ import annotations

from dataclasses import replace

from gpuproof.catalogue import Catalogue
from gpuproof.watch.report import WatchReport

_SECONDS_PER_HOUR = 3600


def with_cost(report: WatchReport, catalogue: Catalogue) -> WatchReport:
    """The report with what its time on the instance costs, in USD; as it is if the instance or its price is unknown."""
    if report.cost_usd is not None or report.instance is None or report.instance.region is None:
        return report
    market = "spot" if report.instance.life_cycle == "spot" else "on-demand"
    price = catalogue.price(report.instance.type, report.instance.region, market=market)
    if price is None:
        return report
    return replace(report, cost_usd=round(price.usd_per_hour * report.seconds / _SECONDS_PER_HOUR, 6))
