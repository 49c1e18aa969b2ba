"""The carbon dioxide of a run's GPUs."""

import pytest

from gpuproof.agent.verdict import Energy, Expectation, Verdict
from gpuproof.backends.advice.carbon import carbon
from gpuproof.catalogue import Catalogue


def verdict(kwh: float | None) -> Verdict:
    energy = None if kwh is None else Energy(kwh * 3.6e6, 1)
    return Verdict("used", "1 of 1 GPU worked.", expectation=Expectation(1), energy=energy)


def test_it_is_the_energy_times_the_average_of_the_regions_grid():
    found = carbon(verdict(10), "us-east-1")
    assert found is not None
    # 596.3 lb/MWh (EPA eGRID2023, SRVC) are 270.5 g/kWh.
    assert found.grams == pytest.approx(2705, abs=1)
    assert found.text == (
        "about 2.71 kg CO2e: 10 kWh by the GPUs at 270 g/kWh, the average of SERC Virginia/Carolina (SRVC) in 2023"
    )
    assert found.to_json()["source"] == "egrid-2023"


def test_less_than_a_kilogram_is_in_grams():
    found = carbon(verdict(1.83), "eu-north-1")
    assert found is not None
    assert found.text.startswith("about 74 g CO2e: 1.83 kWh")


def test_a_short_run_has_no_line():
    short, longer = carbon(verdict(0.009), "us-east-1"), carbon(verdict(0.02), "us-east-1")
    assert short is not None
    assert longer is not None
    assert (short.is_shown, longer.is_shown) == (False, True)


@pytest.mark.parametrize(
    ("kwh", "region"), [(None, "us-east-1"), (1, None), (1, "ca-central-1"), (1, "mars-1")]
)
def test_without_energy_or_a_known_grid_there_is_none(kwh: float | None, region: str | None):
    assert carbon(verdict(kwh), region) is None


def test_every_grid_is_that_of_a_known_region():
    tables = Catalogue.load().tables
    assert set(tables.grid_carbon) <= set(tables.regions)
    for grid in tables.grid_carbon.values():
        assert 10 <= grid.g_per_kwh <= 1000, grid
        assert 2020 <= grid.year <= 2026, grid
        assert grid.licence in ("public domain", "CC-BY-4.0"), grid
