"""What a watched program has cost, and a cheaper instance that would do: by the instance of its report and the catalogue."""

from __future__ import annotations

from dataclasses import replace

from gpuproof.agent.verdict import Verdict
from gpuproof.backends.advice.rightsizing import LEAST_SECONDS, rightsize
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
    return replace(report, cost_usd=round(price.usd_per_hour * _seconds(report) / _SECONDS_PER_HOUR, 6))


def _seconds(report: WatchReport) -> float:
    """Of all hosts, if the report is on a job of several."""
    if report.host or report.hosts <= 1:
        return report.seconds
    try:
        hosts = Verdict.from_json(dict(report.verdict)).hosts
    except ValueError:
        hosts = ()
    return sum(host.seconds for host in hosts) or report.seconds * report.hosts


def with_advice(report: WatchReport, catalogue: Catalogue) -> WatchReport:
    """The report with a note on a cheaper instance on which the program would do as well, if one is certain.

    Spot prices change all the time, and a short time says little about the next one.
    """
    instance = report.instance
    if instance is None or instance.region is None or instance.life_cycle == "spot":
        return report
    if report.seconds < LEAST_SECONDS or report.hosts > 1:
        return report
    try:
        verdict = Verdict.from_json(dict(report.verdict))
    except ValueError:
        return report
    found = rightsize(verdict, instance.type, 1, catalogue, region=instance.region, use="training")
    return report if found is None else replace(report, notes=(*report.notes, found.text))
