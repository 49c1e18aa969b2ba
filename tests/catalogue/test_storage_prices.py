"""What volumes cost, and where a price is derived."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.refresh.store import Scope, Store
from gpuproof.catalogue.storage_prices import Volume

CATALOGUE = Catalogue.load(Path("/nonexistent"))


def monthly(
    volume: Volume, region: str = "us-east-1", catalogue: Catalogue = CATALOGUE
) -> tuple[float, bool]:
    """USD a month, and whether the price is derived."""
    price = catalogue.volume_price(volume, region)
    assert price is not None
    return round(730 * price.usd_per_hour, 6), price.is_derived


@pytest.mark.parametrize(
    ("volume", "usd"),
    [
        (Volume("gp3", 100), 8.0),
        (Volume("gp3", 100, 3000, 125), 8.0),  # included
        (Volume("gp3", 100, 4000, 125), 8.0 + 1000 * 0.005),
        (Volume("gp3", 100, 3000, 225), 8.0 + 100 * 0.04),
        (Volume("gp2", 500, 1500), 50.0),  # its IOPS follow from its size
        (Volume("io1", 100, 2000), 12.5 + 2000 * 0.065),
        (Volume("io2", 100, 70_000), 12.5 + 32_000 * 0.065 + 32_000 * 0.0455 + 6000 * 0.03185),
        (Volume("st1", 1000), 45.0),
        (Volume("sc1", 1000), 15.0),
        (Volume("standard", 100), 5.0),
        (Volume("", 50, use="notebook"), 7.0),
        (Volume("", 30, use="training"), 4.2),
    ],
)
def test_a_volume_costs_its_size_and_what_it_has_above_what_is_included(volume: Volume, usd: float) -> None:
    assert monthly(volume) == (pytest.approx(usd), False)


def test_a_region_has_its_own_price() -> None:
    assert monthly(Volume("gp3", 100), "eu-central-1") == (9.52, False)
    assert monthly(Volume("", 100, use="notebook"), "eu-west-1") == (15.4, False)


def test_iops_and_throughput_without_a_price_are_derived_from_the_ratio_of_the_regions() -> None:
    """AWS lists 0.006 USD for an IOPS of gp3 and 0.048 USD for a MiB/s in ap-northeast-1."""
    assert monthly(Volume("gp3", 100, 4000, 225), "ap-northeast-1") == (pytest.approx(9.6 + 6 + 4.8), True)
    assert monthly(Volume("gp3", 100, 3000, 125), "ap-northeast-1") == (9.6, False)


def test_sagemakers_storage_without_a_price_is_derived_from_that_of_gp2() -> None:
    assert monthly(Volume("", 100, use="notebook"), "eu-central-1") == (pytest.approx(1.4 * 11.9), True)
    assert monthly(Volume("", 100, use="training"), "sa-east-1") == (pytest.approx(26.6), True)


def test_an_unknown_region_has_the_price_of_the_default_region_as_a_derived_one() -> None:
    assert monthly(Volume("gp3", 100), "xx-north-9") == (8.0, True)


@pytest.mark.parametrize(
    ("volume", "region"), [(Volume("gp9", 100), "us-east-1"), (Volume("gp3", 100), "cn-north-1")]
)
def test_an_unknown_type_or_currency_has_no_price(volume: Volume, region: str) -> None:
    assert CATALOGUE.volume_price(volume, region) is None


def test_refreshed_prices_replace_those_of_their_region_and_service(tmp_path: Path) -> None:
    row = {
        "service": "ec2",
        "use": "volume",
        "volume_type": "gp3",
        "unit": "gb",
        "above": "0",
        "region": "us-east-1",
        "usd_per_month": "0.07",
        "kind": "observed",
        "confidence": "high",
        "source": "aws-api",
        "as_of": "2026-11-24",
    }
    Store(tmp_path).save({Scope("storage-prices", "us-east-1"): [row]}, "2026-11-24")
    catalogue = Catalogue.load(tmp_path)
    assert monthly(Volume("gp3", 100), catalogue=catalogue) == (7.0, False)
    assert monthly(Volume("gp3", 100), "eu-west-1", catalogue) == (8.8, False)
    assert monthly(Volume("", 100, use="notebook"), catalogue=catalogue) == (14.0, False)
    assert catalogue.volume_price(Volume("gp2", 100), "us-east-1") is None
