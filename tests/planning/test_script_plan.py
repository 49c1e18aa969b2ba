"""The plan of a traced script: costs, conditions and the recommendation, against what follows from the catalogue."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import ServiceName
from gpuproof.planning.document import to_json
from gpuproof.planning.estimates import Interval
from gpuproof.planning.recommendation import Conditions, Offer, pareto_front
from gpuproof.planning.script_plan import ScriptPlan, make_plan
from gpuproof.planning.start_up import storage_usd_per_hour
from gpuproof.planning.tracing import TracedSizes
from gpuproof.trace.document import CATEGORIES, Input, Memory, Operator, Trace

GIB = 1 << 30
CATALOGUE = Catalogue.load()
PARAMETER = CATEGORIES.index("parameter")


def trace(gib: float = 1.0, **keys: object) -> Trace:
    """A script that computes 10 TFLOPs in float16 and holds some memory."""
    n = 17_100
    product = Operator(
        "aten.mm", "gemm", "float16", "forward", 2.0 * n**3, 6.0 * n * n, 1, ((n, n), (n, n)), 1, (1, n, n, n)
    )
    memory = Memory([(int(gib * GIB), PARAMETER)], [1, 0, 0])
    made = Trace(
        *("torch", "2.13.0", "training", 2, [product], memory, 1, 10, 10, 40),
        input=Input(samples=16, steps_per_epoch=100),
    )
    return replace(made, **keys)  # type: ignore[arg-type]


def plan(found: Trace, **conditions: object) -> ScriptPlan:
    return make_plan(CATALOGUE, TracedSizes(found, None, "a reason"), Conditions(**conditions))  # type: ignore[arg-type]


def test_gpus_that_fit_come_first_the_cheapest_on_demand_before_others_and_the_largest_of_the_rest() -> None:
    found = plan(trace(21.0), epochs=3)
    fits = [gpu.fit.fit for gpu in found.gpus]
    assert fits == sorted(fits, key=["fits", "borderline", "does-not-fit"].index)
    assert set(fits) >= {"fits", "does-not-fit"}
    usd = [
        min(offer.usd.value for offer in gpu.offers if offer.priced.market == "on-demand")
        for gpu in found.gpus
        if gpu.fit.fit == "fits"
    ]
    assert usd == sorted(usd)
    usable = [gpu.fit.usable for gpu in found.gpus if gpu.fit.fit == "does-not-fit"]
    assert usable == sorted(usable, reverse=True)


@pytest.mark.parametrize(("given", "ec2", "sagemaker"), [(None, 120, 160), (30.0, 30, 30), (0.0, 0, 0)])
def test_costs_are_start_and_steps_times_price_and_volume(
    given: float | None, ec2: float, sagemaker: float
) -> None:
    found = plan(trace(), epochs=3, start_up=given)
    assert (found.workload.steps, found.workload.epochs) == (300, 3)
    assert found.gpus
    for gpu in found.gpus:
        for offer in gpu.offers:
            start = ec2 if offer.priced.service == "ec2" else sagemaker
            assert offer.start_up.value == start
            assert offer.seconds.value == pytest.approx(start + 300 * gpu.step.step.value)
            price = offer.priced.price.usd_per_hour
            assert offer.usd.value == pytest.approx(offer.seconds.value * price / 3600 + offer.storage_usd)


@pytest.mark.parametrize(
    ("name", "service", "region", "hourly"),
    [
        ("g5.xlarge", "ec2", "us-east-1", 140 * 0.08 / 730),
        ("g5.xlarge", "ec2", "sa-east-1", 140 * 0.152 / 730),
        ("ml.g5.xlarge", "sagemaker", "us-east-1", 0.0),  # its local disk is the volume
        ("ml.p3.2xlarge", "sagemaker", "us-east-1", 30 * 0.14 / 730),
        ("ml.p3.2xlarge", "sagemaker", "eu-west-1", 30 * 0.154 / 730),
    ],
)
def test_the_volume_costs_something_where_there_is_one(
    name: str, service: ServiceName, region: str, hourly: float
) -> None:
    instance = CATALOGUE.instance(name)
    assert instance is not None
    assert storage_usd_per_hour(CATALOGUE, instance, service, region) == pytest.approx(hourly)


def test_a_script_of_unknown_length_is_planned_for_a_thousand_steps() -> None:
    found = plan(trace(input=Input()))
    assert (found.workload.steps, found.workload.epochs) == (1000, None)
    found = plan(trace(input=Input()), steps_per_epoch=70, epochs=2)
    assert (found.workload.steps, found.workload.epochs) == (140, 2)


def test_what_needs_30_gib_is_recommended_on_a_gpu_that_has_them() -> None:
    found = plan(trace(30))
    assert found.recommendation is not None
    assert found.recommendation.plan.candidate.gpu.memory_gb >= 40
    fits = {gpu.candidate.gpu.name: gpu.fit.fit for gpu in found.gpus}
    assert (fits["T4"], fits["A10G"], fits["L40S"]) == ("does-not-fit", "does-not-fit", "fits")


def test_what_fits_nowhere_has_no_recommendation() -> None:
    found = plan(trace(1000))
    assert found.recommendation is None
    assert found.pareto == ()
    assert all(gpu.fit.fit == "does-not-fit" for gpu in found.gpus)


def test_the_cheapest_is_recommended_and_a_deadline_asks_for_a_faster_one() -> None:
    found = plan(trace(), epochs=1000)
    assert found.recommendation is not None
    cheapest = found.recommendation.offer
    on_demand = [
        offer
        for gpu in found.gpus
        if gpu.fit.fit == "fits"
        for offer in gpu.offers
        if offer.priced.market != "spot" and offer.priced.instance.arch == "x86_64"
    ]
    assert cheapest.usd.value == min(offer.usd.value for offer in on_demand)
    faster = plan(trace(), epochs=1000, deadline=cheapest.seconds.high * 0.5).recommendation
    assert faster is not None
    assert faster.offer.seconds.high <= cheapest.seconds.high * 0.5
    assert "within the deadline" in faster.reason
    assert plan(trace(), epochs=1000, deadline=1e-6).recommendation is None
    assert plan(trace(), epochs=1000, budget=cheapest.usd.value * 0.9).recommendation is None


def test_spot_capacity_is_listed_and_recommended_only_if_wanted() -> None:
    found = plan(trace())
    assert any(offer.priced.market == "spot" for gpu in found.gpus for offer in gpu.offers)
    assert all(offer.priced.market != "spot" for offer in found.pareto)
    wanted = plan(trace(), spot=True).recommendation
    assert wanted is not None
    assert wanted.offer.priced.market == "spot"


@pytest.mark.parametrize("service", ["ec2", "sagemaker"])
def test_one_service(service: str) -> None:
    found = plan(trace(), service=service)
    assert {offer.priced.service for gpu in found.gpus for offer in gpu.offers} == {service}
    prefixed = [offer.priced.instance.name.startswith("ml.") for gpu in found.gpus for offer in gpu.offers]
    assert set(prefixed) == {service == "sagemaker"}


def test_eight_gpus_of_which_each_holds_a_share() -> None:
    layers = Memory([(GIB, PARAMETER)] * 60, [*range(1, 61), 0, 0])
    whole = plan(trace(memory=layers), gpus=8)
    shared = plan(trace(memory=layers, strategy="fsdp", world_size=8), gpus=8)
    assert {gpu.candidate.gpu.name for gpu in whole.gpus} >= {"A100-40GB", "H100"}

    def needed(found: ScriptPlan) -> float:
        return next(gpu for gpu in found.gpus if gpu.candidate.gpu.name == "A100-40GB").memory.required.value

    assert needed(shared) < needed(whole) / 3


def test_a_slice_of_a_gpu_takes_longer_than_the_gpu() -> None:
    steps = {gpu.candidate.name: gpu.step.step.value for gpu in plan(trace()).gpus}
    assert steps["L4 (0.5)"] == pytest.approx(2 * steps["L4"])


def test_the_document_has_every_gpu_and_its_offers() -> None:
    found = plan(trace(), epochs=2)
    document = to_json(found, "train.py")
    assert (document["version"], document["script"], document["steps"]) == (1, "train.py", 200)
    assert [gpu["gpu"] for gpu in document["gpus"]] == [gpu.candidate.gpu.name for gpu in found.gpus]
    assert document["operators"] == {
        "gemm": {"calls": 1, "flops": found.trace.flops, "bytes": 6.0 * 17_100**2}
    }
    assert found.recommendation is not None
    assert document["recommendation"]["instance_type"] == found.recommendation.offer.priced.instance.name
    assert document["warnings"] == ["The largest batch size is not known: a reason."]


@given(st.lists(st.tuples(st.floats(0.1, 1e6), st.floats(0.01, 1e4)), max_size=30))
def test_nothing_is_faster_and_cheaper_than_what_is_on_the_front(points: list[tuple[float, float]]) -> None:
    priced = plan(trace()).gpus[0].offers[0].priced if points else None
    offers = [
        Offer(priced, Interval(s, s, s), Interval(u, u, u), Interval(0, 0, 0), 0.0)  # type: ignore[arg-type]
        for s, u in points
    ]
    front = pareto_front(offers)
    for offer in offers:
        dominated = any(
            other.seconds.value <= offer.seconds.value
            and other.usd.value <= offer.usd.value
            and (other.seconds.value, other.usd.value) != (offer.seconds.value, offer.usd.value)
            for other in offers
        )
        known = {(other.seconds.value, other.usd.value) for other in front}
        assert dominated != ((offer.seconds.value, offer.usd.value) in known)
