"""The cost of a watched program, and a cheaper instance that would do."""

from dataclasses import replace

import pytest

from gpuproof.agent.verdict import Expectation, judge
from gpuproof.app.watch_cost import with_advice, with_cost
from gpuproof.catalogue import Catalogue
from gpuproof.watch.report import Instance, WatchReport, report_text
from support.gpu_timelines import JOB, cpu, gpu, watched

CATALOGUE = Catalogue.load()


def report(seconds: float = 600, **instance: str) -> WatchReport:
    """One of four GPUs worked, on a g5.12xlarge."""
    timelines = [gpu(95, mib=8000, pids={JOB: 7900}), gpu(), gpu(), gpu()]
    verdict = judge(Expectation(4), watched(seconds, *timelines, cpu=cpu(2.0), cpu_count=48))
    facts = {"type": "g5.12xlarge", "region": "us-east-1", "life_cycle": "on-demand", **instance}
    return replace(WatchReport.of(verdict), instance=Instance(**facts))


@pytest.mark.parametrize("market", ["on-demand", "spot"])
def test_the_cost_is_the_time_at_the_price_of_the_instance(market: str):
    found = with_cost(report(life_cycle=market), CATALOGUE)
    price = CATALOGUE.price("g5.12xlarge", "us-east-1", market=market)
    assert price is not None
    assert found.cost_usd == pytest.approx(price.usd_per_hour / 6, rel=1e-3)
    assert f"on g5.12xlarge in us-east-1 ({market})" in report_text(found)


def test_a_cheaper_instance_is_named_for_gpus_that_did_nothing():
    notes = with_advice(report(), CATALOGUE).notes
    assert len(notes) == 1
    assert notes[0].startswith("1 of 4 GPUs worked: `g5.xlarge` would do the same for $")


@pytest.mark.parametrize("changed", [{"seconds": 60.0}, {"life_cycle": "spot"}, {"type": "g5.xlarge"}])
def test_nothing_is_named_where_that_is_uncertain(changed: dict[str, str | float]):
    assert with_advice(report(**changed), CATALOGUE).notes == ()
