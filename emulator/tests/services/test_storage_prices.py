"""Prices of volumes are those of the catalogue, in the form in which `gpuproof catalogue refresh` reads them from AWS."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gpuproof.catalogue.tables import SHIPPED
from support.aws_emulator import REGION
from support.cli_sandbox import CliSandbox
from support.emulator_jobs import Account

pytestmark = pytest.mark.slow

KEYS = ("service", "use", "volume_type", "unit", "above")


def prices(table: Path) -> dict[tuple[str, ...], float]:
    with table.open(encoding="utf-8", newline="") as rows:
        return {
            tuple(row[key] for key in KEYS): float(row["usd_per_month"])
            for row in csv.DictReader(rows)
            if row["region"] == REGION
        }


def test_a_refresh_reads_the_prices_that_are_shipped(aws: Account, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    cli = CliSandbox(
        tmp_path, tmp_path, {**aws.emulator.credentials, "GPUPROOF_CACHE_DIR": str(tmp_path / "cache")}
    )
    words = ("catalogue", "refresh", "--part", "storage-prices", "--region", REGION)
    done = cli.gpuproof(*words, "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    done = cli.gpuproof(*words)
    assert done.returncode == 0, done.stderr
    read = prices(tmp_path / "cache" / "catalogue" / "storage_prices.csv")
    assert read == prices(SHIPPED / "storage_prices.csv")
    assert read["ec2", "volume", "gp3", "gb", "0"] == 0.08
