"""The age of each part of the data about AWS."""

import json
from datetime import date
from pathlib import Path

import pytest

from gpuproof.catalogue.refresh.store import Scope, Store
from gpuproof.catalogue.tables import Tables
from gpuproof.cli.aws.catalogue_status import PartStatus, read_status
from gpuproof.cli.main import main

TODAY = date(2026, 11, 23)


def parts(folder: Path) -> dict[str, PartStatus]:
    return {item.part: item for item in read_status(Tables(), Store(folder), TODAY)}


def test_shipped_facts_have_the_span_of_their_dates(tmp_path: Path) -> None:
    prices = parts(tmp_path)["ec2-prices"]
    assert prices.shipped == ("2025-04-04", "2026-08-06")
    assert (prices.refreshed, prices.regions, prices.days) == (None, 0, 109)


def test_a_refresh_is_what_counts(tmp_path: Path) -> None:
    dates = {"us-east-1": "2026-11-20", "eu-west-1": "2026-11-22"}
    for region, as_of in dates.items():
        Store(tmp_path).save({Scope("spot-prices", region): []}, as_of)
    spot = parts(tmp_path)["spot-prices"]
    assert (spot.refreshed, spot.regions, spot.days) == (("2026-11-20", "2026-11-22"), 2, 1)


def test_status_is_printed_as_a_table_or_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUPROOF_CACHE_DIR", str(tmp_path))
    assert main(["catalogue", "status"]) == 0
    assert "sagemaker-prices" in capsys.readouterr().out
    assert main(["catalogue", "status", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert {"instances", "builds"} <= {part["part"] for part in document["parts"]}
