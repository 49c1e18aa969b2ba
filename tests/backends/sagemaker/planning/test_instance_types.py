"""Which instance types are tried for a job, in which order."""

from __future__ import annotations

from typing import Any

import pytest

from gpuproof.backends.remote.planning.instance_search import MOST_CANDIDATES, InstanceChoice
from gpuproof.backends.sagemaker.planning.instance_types import choose_instance_types
from gpuproof.catalogue import Catalogue
from gpuproof.errors import InvalidJob
from gpuproof.jobs.models.script_jobs import ProcessingJob, TrainingJob

REGION = "us-west-2"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def training(**keys: Any) -> TrainingJob:
    return TrainingJob(entry_point="train.py", **keys)


def names(choice: InstanceChoice) -> list[str]:
    return [candidate.name for candidate in choice.candidates]


def test_a_named_type_comes_first_and_its_fallbacks_follow_in_order(catalogue: Catalogue) -> None:
    job = training(instance_type="ml.g5.xlarge", fallbacks=["ml.g6.xlarge", "ml.g4dn.xlarge", "ml.g5.xlarge"])
    choice = choose_instance_types(job, catalogue, REGION)
    assert names(choice) == ["ml.g5.xlarge", "ml.g6.xlarge", "ml.g4dn.xlarge"]
    assert choice.candidates[0].price is not None
    assert choice.warnings == ()


def test_a_gpu_selects_the_types_that_have_it_cheapest_first(catalogue: Catalogue) -> None:
    choice = choose_instance_types(training(resources={"gpu": "A10G:1"}), catalogue, REGION)
    assert names(choice)[0] == "ml.g5.xlarge"
    assert all(name.startswith("ml.g5.") for name in names(choice))
    assert len(choice.candidates) == MOST_CANDIDATES
    prices = [candidate.price.usd_per_hour for candidate in choice.candidates if candidate.price]
    assert prices == sorted(prices)


def test_a_maximum_price_leaves_more_expensive_types_out(catalogue: Catalogue) -> None:
    choice = choose_instance_types(
        training(resources={"gpu": "A10G:1", "max_price": "$1.60"}), catalogue, REGION
    )
    assert all(candidate.price and candidate.price.usd_per_hour <= 1.60 for candidate in choice.candidates)
    assert "ml.g5.4xlarge" not in names(choice)


def test_a_price_limit_does_not_exclude_spot_without_a_known_price(catalogue: Catalogue) -> None:
    choice = choose_instance_types(
        training(resources={"gpu": "A10G:1", "max_price": "$0.80", "spot": True}), catalogue, REGION
    )
    assert names(choice)[0] == "ml.g5.xlarge"
    assert "spot" in choice.warnings[0]


def test_fallbacks_come_after_what_resources_give(catalogue: Catalogue) -> None:
    job = training(resources={"gpu": "A10G:1"}, fallbacks=["ml.g6.xlarge"])
    assert names(choose_instance_types(job, catalogue, REGION))[-1] == "ml.g6.xlarge"


def test_the_name_of_ec2_is_answered_with_the_name_of_sagemaker(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidJob) as raised:
        choose_instance_types(training(instance_type="g5.xlarge"), catalogue, REGION)
    assert raised.value.remedy == "--instance-type ml.g5.xlarge"


def test_a_type_of_another_kind_of_job_is_refused_before_any_call(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidJob) as raised:
        choose_instance_types(training(instance_type="ml.inf1.xlarge"), catalogue, REGION)
    assert "is not an instance type for training jobs" in raised.value.message
    assert "endpoints" in raised.value.message
    # No type with the same accelerator trains: types that do are named instead.
    assert (raised.value.remedy or "").startswith("--instance-type ml.")


def test_a_fallback_of_another_kind_of_job_is_refused_too(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidJob, match=r"ml\.inf1\.xlarge"):
        choose_instance_types(
            training(instance_type="ml.g5.xlarge", fallbacks=["ml.inf1.xlarge"]), catalogue, REGION
        )


def test_an_unknown_type_is_tried_with_a_note(catalogue: Catalogue) -> None:
    choice = choose_instance_types(training(instance_type="ml.g99.xlarge"), catalogue, REGION)
    assert choice.candidates[0].instance is None
    assert "SageMaker may reject it" in choice.warnings[0]


def test_a_job_without_resources_is_shown_the_three_cheapest(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidJob) as raised:
        choose_instance_types(training(), catalogue, REGION)
    shown = [line for line in (raised.value.remedy or "").splitlines() if "--instance-type ml." in line]
    assert len(shown) == 3
    assert all("an hour" in line for line in shown)


def test_a_gpu_that_sagemaker_does_not_offer_is_reported(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidJob) as raised:
        choose_instance_types(training(resources={"gpu": "A10G:7"}), catalogue, REGION)
    assert "A10G:7" in raised.value.message


def test_a_processing_job_gets_types_that_processing_takes(catalogue: Catalogue) -> None:
    choice = choose_instance_types(
        ProcessingJob(entry_point="prep.py", resources={"gpu": "T4:1"}),  # type: ignore[arg-type]
        catalogue,
        REGION,
    )
    assert all("processing" in catalogue.accepted_for(name) for name in names(choice))


def test_a_gpu_that_no_type_has_is_rejected_with_the_nearest(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidJob, match="requests the GPU A10, which no AWS instance type has") as raised:
        choose_instance_types(training(resources={"gpu": "A10:1"}), catalogue, REGION)
    assert "A10G" in str(raised.value.remedy)


def test_a_gpu_that_a_region_lacks_is_offered_in_the_nearest(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidJob) as raised:
        choose_instance_types(training(resources={"gpu": "H100:8"}), catalogue, "eu-west-1")
    assert str(raised.value.remedy).startswith("Nearest regions that offer it: eu-west-2, eu-north-1, ")
