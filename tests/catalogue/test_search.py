"""Choosing instance types."""

import pytest

from gpuproof.catalogue import Catalogue, InstanceQuery
from gpuproof.catalogue.tables import Tables
from gpuproof.units import CountRange, MemoryRange

CATALOGUE = Catalogue(Tables())


def names(**wanted: object) -> list[str]:
    return [instance.name for instance in CATALOGUE.search(InstanceQuery(**wanted))]  # type: ignore[arg-type]


def test_the_cheapest_comes_first_and_unknown_prices_last() -> None:
    found = CATALOGUE.search(InstanceQuery(region="us-west-2"))
    prices = [CATALOGUE.price(match.name, "us-west-2") for match in found]
    known = [price.usd_per_hour for price in prices if price]
    assert known == sorted(known)
    assert all(price is None for price in prices[len(known) :])


def test_a100_means_both_sizes_and_a100_80gb_one() -> None:
    assert set(names(gpus=("A100",))) == {"p4d.24xlarge", "p4de.24xlarge"}
    assert names(gpus=("A100-80GB",)) == ["p4de.24xlarge"]


@pytest.mark.parametrize("name", ["l4", "L4", "NVIDIA L4", "nvidia-l4"])
def test_a_gpu_goes_by_any_of_its_names(name: str) -> None:
    assert set(names(gpus=(name,))) == set(names(gpus=("L4",)))


def test_l4_does_not_mean_l40s() -> None:
    assert all(instance.gpu_model == "L4" for instance in CATALOGUE.search(InstanceQuery(gpus=("L4",))))


def test_any_of_several_gpus_will_do() -> None:
    assert {instance.gpu_model for instance in CATALOGUE.search(InstanceQuery(gpus=("A10G", "T4")))} == {
        "A10G",
        "T4",
    }


def test_a_count_counts_whole_gpus() -> None:
    assert all(
        2 <= instance.gpu_count <= 4 for instance in CATALOGUE.search(InstanceQuery(count=CountRange(2, 4)))
    )
    assert "g6f.large" not in names(count=CountRange(1, None))
    assert "g6f.large" in names()


def test_a_range_that_ends_at_nothing_takes_nothing() -> None:
    assert names(count=CountRange(0, 0)) == []


def test_total_memory_is_over_all_gpus() -> None:
    found = CATALOGUE.search(InstanceQuery(total_gpu_memory=MemoryRange.parse("600GiB+")))
    assert "p5.48xlarge" in [match.name for match in found]
    assert all(match.gpu_count * match.gpu_memory >= 600 * 2**30 for match in found)


def test_a_range_of_memory_has_two_ends() -> None:
    found = CATALOGUE.search(InstanceQuery(gpu_memory=MemoryRange.parse("40GiB..48GiB")))
    assert {match.gpu_model for match in found} == {"A100-40GB", "L40S"}


def test_host_memory_and_vcpus_count_too() -> None:
    found = CATALOGUE.search(InstanceQuery(memory=MemoryRange.parse("64GiB+"), cpus=CountRange(None, 16)))
    assert found
    assert all((match.memory or 0) >= 64 * 2**30 and (match.vcpus or 99) <= 16 for match in found)


def test_a_region_offers_less_than_the_world() -> None:
    assert set(names(region="eu-west-1")) < set(names())
    assert "g6.xlarge" not in names(region="eu-west-1")


def test_a_region_without_data_filters_nothing() -> None:
    assert set(names(region="us-gov-west-1")) == set(names())


def test_sagemaker_types_are_named_so_and_accepted_by_some_api() -> None:
    found = names(service="sagemaker")
    assert "ml.g5.xlarge" in found
    assert all(CATALOGUE.accepted_for(name) for name in found)
    assert not [name for name in found if name.startswith(("ml.g5g", "ml.g6f"))]


def test_a_use_takes_only_what_its_api_accepts() -> None:
    assert "ml.p4d.24xlarge" in names(use="training")
    assert "ml.p4d.24xlarge" not in names(use="processing")


def test_a_price_limit_excludes_higher_and_unknown_prices() -> None:
    found = CATALOGUE.search(InstanceQuery(max_price=1.0))
    assert found
    assert all(CATALOGUE.price(match.name).usd_per_hour <= 1.0 for match in found)  # type: ignore[union-attr]
    assert "p5e.48xlarge" not in names(max_price=1e6)


def test_the_price_limit_is_on_the_price_of_the_place() -> None:
    assert "g4dn.xlarge" in names(max_price=0.6)
    assert "ml.g4dn.xlarge" not in names(max_price=0.6, service="sagemaker")


def test_a_framework_takes_only_gpus_that_it_is_known_to_run_on() -> None:
    build = CATALOGUE.build("torch==2.11")
    assert build is not None
    models = {instance.gpu_model for instance in CATALOGUE.search(InstanceQuery(builds=(build,)))}
    assert {"T4", "A10G", "H100", "RTX-PRO-6000"} <= models
    assert "V100-32GB" not in models


def test_an_arm64_host_takes_an_arm64_build() -> None:
    build = CATALOGUE.build("torch==2.15", "arm64")
    assert build is not None
    assert {instance.gpu_model for instance in CATALOGUE.search(InstanceQuery(builds=(build,)))} == {"GB200"}


def test_retired_types_are_listed_only_on_request() -> None:
    assert "p3.2xlarge" not in names()
    assert "p3.2xlarge" in names(include_retired=True)


def test_nothing_that_fits_is_an_empty_answer() -> None:
    assert names(gpus=("T4",), gpu_memory=MemoryRange.parse("80GiB+")) == []
    assert names(gpus=("X900",)) == []


def test_the_same_request_has_the_same_answer() -> None:
    assert names(gpus=("L4",)) == names(gpus=("L4",))
