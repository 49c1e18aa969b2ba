"""A refresh over HTTP, with real boto3 against moto's server, where that answers."""

from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.refresh.store import Scope, Store
from gpuproof.cli.main import main

pytestmark = pytest.mark.slow

REGIONS = ["us-east-1", "eu-west-1"]


@pytest.fixture
def moto(aws_environment, moto_url: str) -> str:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_url)
    return moto_url


@pytest.mark.usefixtures("moto")
def test_types_of_all_regions_are_read_once_each_and_fractions_are_kept(refreshing) -> None:
    (outcome,) = refreshing().refresh.fetch(REGIONS, ["instances"])
    rows = {row["instance_type"]: row for row in outcome.rows}
    assert outcome.scope == Scope("instances", "*")
    assert (rows["g6f.large"]["gpu_count"], rows["g6f.large"]["gpu_fraction"]) == ("1", "0.125")
    assert rows["g6.xlarge"]["gpu_memory_mib"] == "22888"
    assert rows["p4d.24xlarge"]["gpu"] == "A100-40GB"
    assert rows["p4de.24xlarge"]["gpu"] == "A100-80GB"
    assert rows["g5g.xlarge"]["arch"] == "arm64"
    assert rows["p6-b200.48xlarge"]["network_baseline_gbps"] == "3200"
    assert len(rows) == len(outcome.rows)


@pytest.mark.usefixtures("moto")
def test_what_is_read_has_the_columns_of_the_shipped_table(refreshing) -> None:
    outcomes = refreshing().refresh.fetch(["us-east-1"], ["instances", "offerings", "spot-prices"])
    data = Path(__import__("gpuproof.catalogue").catalogue.__file__).parent / "data"
    for outcome, table in zip(outcomes, ("instances", "offerings", "prices/us-east-1"), strict=True):
        header = (data / f"{table}.csv").read_text().splitlines()[0].split(",")
        assert list(outcome.rows[0]) == header


@pytest.mark.usefixtures("moto")
def test_offerings_differ_between_regions_and_name_zones_by_id(refreshing) -> None:
    virginia, ireland = refreshing().refresh.fetch(REGIONS, ["offerings"])
    assert {row["instance_type"] for row in virginia.rows} > {row["instance_type"] for row in ireland.rows}
    assert all(zone.startswith("euw1-az") for row in ireland.rows for zone in row["az_ids"].split())


@pytest.mark.usefixtures("moto")
def test_regions_are_those_of_the_account(refreshing) -> None:
    assert {"us-east-1", "eu-west-1"} <= set(refreshing().refresh.regions())


@pytest.mark.usefixtures("moto")
def test_progress_is_reported_for_each_part_and_region(refreshing) -> None:
    one = refreshing()
    one.refresh.fetch(REGIONS, ["instances", "offerings"])
    assert len(one.messages) == 4


@pytest.mark.usefixtures("moto")
def test_a_refreshed_folder_answers_questions(refreshing, tmp_path: Path) -> None:
    outcomes = refreshing().refresh.fetch(["us-east-1"], ["instances", "offerings"])
    Store(tmp_path).save({outcome.scope: outcome.rows for outcome in outcomes}, "2026-11-21")
    catalogue = Catalogue.load(refreshed=tmp_path)
    instance = catalogue.instance("ml.g5.xlarge")
    assert instance is not None
    assert (instance.source, instance.gpu_model) == ("aws-api", "A10G")
    assert catalogue.offerings("g5.xlarge", "us-east-1")[0].source == "aws-api"
    assert catalogue.offerings("g5.xlarge", "us-west-2")[0].source == "moto-5.2.5"


@pytest.mark.usefixtures("moto")
def test_an_announced_end_is_not_forgotten_when_the_api_still_offers_the_type(
    refreshing, tmp_path: Path
) -> None:
    (outcome,) = refreshing().refresh.fetch(["us-east-1"], ["instances"])
    Store(tmp_path).save({outcome.scope: outcome.rows}, "2026-11-21")
    instance = Catalogue.load(refreshed=tmp_path).instance("p3dn.24xlarge")
    assert instance is not None
    assert (instance.source, instance.status) == ("aws-api", "legacy")


@pytest.mark.usefixtures("moto")
def test_a_part_that_fails_keeps_the_old_and_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("gpuproof.settings.cache_dir", lambda: tmp_path)
    Store(tmp_path / "catalogue").save({Scope("ec2-prices", "us-east-1"): []}, "2026-10-01")
    # Moto has no price list: it answers 500.
    parts = ["--part", "offerings", "--part", "ec2-prices"]
    code = main(["catalogue", "refresh", "--region", "us-east-1", *parts])
    output = capsys.readouterr()
    assert code == 5
    assert "offerings" in output.out
    assert "ec2-prices of us-east-1: kept from 2026-10-01" in output.err
    assert (tmp_path / "catalogue" / "offerings.csv").exists()


@pytest.mark.usefixtures("moto")
def test_check_writes_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("gpuproof.settings.cache_dir", lambda: tmp_path)
    main(["catalogue", "refresh", "--check", "--region", "us-east-1", "--part", "offerings"])
    assert capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
