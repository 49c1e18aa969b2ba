"""What a SageMaker job costs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuproof.backends.sagemaker.tracking.cost import Fleet, bill_of, fleets_of, hourly_price
from gpuproof.catalogue import Catalogue

START = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
NOW = (START + timedelta(seconds=600)).timestamp()


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def training(**more: Any) -> dict[str, Any]:
    return {"ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1}, **more}


def test_billed_seconds_times_instances_times_the_price(catalogue: Catalogue) -> None:
    price = catalogue.price("ml.g5.xlarge", "us-east-1", "training")
    assert price is not None
    hourly = hourly_price((Fleet("ml.g5.xlarge", 4),), catalogue, "us-east-1", "training")
    assert hourly is not None
    bill = bill_of("training", training(BillableTimeInSeconds=900, TrainingEndTime=START), hourly.usd, NOW)
    assert bill is not None
    assert bill.usd == pytest.approx(4 * price.usd_per_hour * 900 / 3600)
    assert bill.final


def test_spot_bills_less_than_it_trained_and_shows_the_saving() -> None:
    described = training(
        BillableTimeInSeconds=300,
        TrainingTimeInSeconds=1000,
        EnableManagedSpotTraining=True,
        TrainingStartTime=START,
        TrainingEndTime=START,
    )
    bill = bill_of("training", described, 1.0, NOW)
    assert bill is not None
    assert (bill.seconds, bill.spot_saving) == (300, pytest.approx(0.7))
    assert bill.usd == pytest.approx(300 / 3600)


def test_without_spot_no_saving_is_claimed() -> None:
    described = training(BillableTimeInSeconds=300, TrainingTimeInSeconds=1000)
    bill = bill_of("training", described, 1.0, NOW)
    assert bill is not None
    assert bill.spot_saving is None


def test_while_it_runs_the_time_since_its_start_counts() -> None:
    bill = bill_of("training", training(TrainingStartTime=START), 36.0, NOW)
    assert bill is not None
    assert (bill.seconds, bill.usd, bill.final) == (600, pytest.approx(6.0), False)


def test_a_clock_behind_aws_makes_no_negative_bill() -> None:
    bill = bill_of("training", training(TrainingStartTime=START), 36.0, NOW - 10_000)
    assert bill is not None
    assert bill.seconds == 0


def test_before_the_instances_run_nothing_is_billed() -> None:
    assert bill_of("training", training(), 1.0, NOW) is None


def test_processing_jobs_are_billed_by_their_times() -> None:
    described = {"ProcessingStartTime": START, "ProcessingEndTime": START + timedelta(seconds=90)}
    bill = bill_of("processing", described, 40.0, NOW)
    assert bill is not None
    assert (bill.seconds, bill.usd, bill.final) == (90, pytest.approx(1.0), True)


def test_an_instance_without_a_known_price_has_no_cost_but_seconds(catalogue: Catalogue) -> None:
    assert hourly_price((Fleet("ml.new.xlarge", 1),), catalogue, "us-east-1", "training") is None
    bill = bill_of("training", training(BillableTimeInSeconds=5), None, NOW)
    assert bill is not None
    assert (bill.seconds, bill.usd) == (5, None)


@pytest.mark.parametrize(
    ("kind", "described", "fleets"),
    [
        ("training", training(), (Fleet("ml.g5.xlarge", 1),)),
        (
            "processing",
            {
                "ProcessingResources": {
                    "ClusterConfig": {"InstanceType": "ml.g4dn.xlarge", "InstanceCount": 2}
                }
            },
            (Fleet("ml.g4dn.xlarge", 2),),
        ),
        (
            "training",
            {
                "ResourceConfig": {
                    "InstanceGroups": [
                        {"InstanceType": "ml.c5.xlarge", "InstanceCount": 2, "InstanceGroupName": "data"},
                        {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "InstanceGroupName": "gpu"},
                    ]
                }
            },
            (Fleet("ml.c5.xlarge", 2), Fleet("ml.g5.xlarge", 1)),
        ),
        (
            "training",
            {"ResourceConfig": {"SelectedInstanceType": "ml.g6.xlarge", "SelectedInstanceCount": 3}},
            (Fleet("ml.g6.xlarge", 3),),
        ),
        ("training", {}, ()),
    ],
)
def test_the_description_names_the_device(
    kind: Any, described: dict[str, Any], fleets: tuple[Fleet, ...]
) -> None:
    assert fleets_of(kind, described) == fleets
