"""The folder of refreshed tables."""

import json
from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.csv_rows import Row
from gpuproof.catalogue.refresh.store import Scope, Store


def offering(name: str, region: str) -> Row:
    return {
        "instance_type": name,
        "region": region,
        "az_ids": "x-az1",
        "source": "aws-api",
        "as_of": "2026-11-21",
    }


def spot(name: str, region: str, usd: str) -> Row:
    return {
        "service": "ec2",
        "use": "compute",
        "instance_type": name,
        "region": region,
        "market": "spot",
        "usd_per_hour": usd,
        "usd_per_hour_max": "",
        "kind": "observed",
        "confidence": "high",
        "source": "aws-api",
        "as_of": "2026-11-21",
    }


def test_a_refreshed_region_loses_what_it_no_longer_offers(tmp_path: Path) -> None:
    scope = Scope("offerings", "us-east-1")
    Store(tmp_path).save(
        {scope: [offering("g5.xlarge", "us-east-1"), offering("g6.xlarge", "us-east-1")]}, "2026-11-20"
    )
    Store(tmp_path).save({scope: [offering("g6.xlarge", "us-east-1")]}, "2026-11-21")
    assert set(Catalogue.load(refreshed=tmp_path).region("us-east-1")) == {"g6.xlarge"}


def test_another_region_keeps_what_it_had(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save({Scope("offerings", "us-east-1"): [offering("g5.xlarge", "us-east-1")]}, "2026-11-20")
    store.save({Scope("offerings", "us-west-2"): [offering("g6.xlarge", "us-west-2")]}, "2026-11-21")
    catalogue = Catalogue.load(refreshed=tmp_path)
    assert set(catalogue.region("us-east-1")) == {"g5.xlarge"}
    assert store.as_of() == {
        Scope("offerings", "us-east-1"): "2026-11-20",
        Scope("offerings", "us-west-2"): "2026-11-21",
    }


def test_spot_prices_do_not_push_out_on_demand_ones(tmp_path: Path) -> None:
    scope = Scope("spot-prices", "us-east-1")
    Store(tmp_path).save({scope: [spot("g5.xlarge", "us-east-1", "0.3")]}, "2026-11-21")
    catalogue = Catalogue.load(refreshed=tmp_path)
    on_demand, of_spot = catalogue.price("g5.xlarge"), catalogue.price("g5.xlarge", market="spot")
    assert on_demand is not None
    assert of_spot is not None
    assert (on_demand.usd_per_hour, of_spot.usd_per_hour) == (1.006, 0.3)


def test_prices_read_again_replace_the_shipped_ones_of_that_region_whole(tmp_path: Path) -> None:
    scope = Scope("spot-prices", "us-east-1")
    Store(tmp_path).save({scope: [spot("g5.xlarge", "us-east-1", "0.3")]}, "2026-11-21")
    catalogue = Catalogue.load(refreshed=tmp_path)
    assert catalogue.price("g6e.xlarge", "us-east-1", market="spot") is None
    assert catalogue.price("g6e.xlarge", "us-west-2", market="spot") is not None


def test_a_write_that_fails_midway_leaves_the_old_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = Scope("offerings", "us-east-1")
    Store(tmp_path).save({scope: [offering("g5.xlarge", "us-east-1")]}, "2026-11-20")
    before = (tmp_path / "offerings.csv").read_text()
    broken = {**offering("g6.xlarge", "us-east-1"), "surplus": "column"}
    with pytest.raises(ValueError, match="surplus"):
        Store(tmp_path).save({scope: [offering("g6.xlarge", "us-east-1"), broken]}, "2026-11-21")
    assert (tmp_path / "offerings.csv").read_text() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["offerings.csv", "state.json"]


@pytest.mark.parametrize("state", ["", "{", '{"version": 99}', "[]"])
def test_an_illegible_state_counts_as_none(tmp_path: Path, state: str) -> None:
    (tmp_path / "state.json").write_text(state)
    assert Store(tmp_path).as_of() == {}


def test_the_state_contains_the_age_of_each_part(tmp_path: Path) -> None:
    Store(tmp_path).save({Scope("amis", "us-east-1"): []}, "2026-11-21")
    state = json.loads((tmp_path / "state.json").read_text())
    assert state == {"version": 2, "as_of": {"amis": {"us-east-1": "2026-11-21"}}}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "instance_type,region\ng5.xlarge,us-east-1\n",
        "a\x00b,c\n1,2\n",
        "instance_type,region,az_ids,source,as_of\nx\n",
    ],
)
def test_a_cache_that_cannot_be_read_leaves_the_shipped_facts(tmp_path: Path, content: str) -> None:
    (tmp_path / "offerings.csv").write_text(content)
    catalogue = Catalogue.load(refreshed=tmp_path)
    assert catalogue.offerings("g5.xlarge", "us-east-1")


def test_a_cache_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "offerings.csv").write_text("a,b\n1\n")
    catalogue = Catalogue.load(refreshed=tmp_path)
    catalogue.offerings("g5.xlarge")
    assert catalogue.tables.ignored == [tmp_path / "offerings.csv"]
