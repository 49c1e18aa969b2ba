"""Spot prices are those of the catalogue."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.tables import Tables
from support.aws_emulator import REGION
from support.emulator_jobs import Account

pytestmark = pytest.mark.slow


def test_a_spot_price_is_the_catalogues(aws: Account) -> None:
    expected = Catalogue(Tables()).price("g5.xlarge", REGION, market="spot")
    assert expected is not None
    found = aws.client("ec2").describe_spot_price_history(
        InstanceTypes=["g5.xlarge"],
        ProductDescriptions=["Linux/UNIX"],
        StartTime=datetime.now(UTC),
    )["SpotPriceHistory"]
    assert {float(match["SpotPrice"]) for match in found} == {expected.usd_per_hour}
    assert len({match["AvailabilityZone"] for match in found}) > 1
