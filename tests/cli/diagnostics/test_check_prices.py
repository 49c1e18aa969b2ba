"""Prices in the messages of `gpuproof check`: derived ones are marked, old ones have their date."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.cli.main import main

LAUNCH = """
from sagemaker.pytorch import PyTorch

PyTorch(entry_point="train.py", instance_count=1, instance_type="{type}", role="r", framework_version="2.6", py_version="py312").fit()
"""
TRAIN = """
import torch

model = torch.nn.Linear(1, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    model(torch.ones(1, 1).cuda()).sum().backward()
    optimizer.step()
"""
SPOT = """
from sagemaker.pytorch import PyTorch

PyTorch(
    entry_point="train.py", instance_count=1, instance_type="ml.m7i.xlarge", role="r", framework_version="2.6",
    py_version="py312", use_spot_instances=True, max_run=86400, max_wait=90000,
).fit()
"""


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("gpuproof.catalogue.catalogue.cache_path", lambda: tmp_path / "cache")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795392000")  # 2026-11-23


def checked(capsys: pytest.CaptureFixture[str], folder: Path, launch: str, region: str, rule: str) -> str:
    (folder / "launch.py").write_text(launch)
    (folder / "train.py").write_text(TRAIN)
    main(["check", str(folder), "--select", rule, "--region", region, "--exit-zero"])
    return " ".join(capsys.readouterr().out.split())


def test_an_observed_price_has_no_mark(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = checked(capsys, tmp_path, LAUNCH.format(type="ml.g5.12xlarge"), "us-east-1", "DS101")
    assert "$5.32 of $7.09 an hour" in text


def test_a_derived_price_is_marked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = checked(capsys, tmp_path, LAUNCH.format(type="ml.g5.12xlarge"), "eu-west-2", "DS101")
    assert "~$6.75 of ~$9.00 an hour" in text
    assert "(~$1.79 an hour)" in text


def test_an_old_price_has_its_date(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = checked(capsys, tmp_path, SPOT, "us-east-1", "CO103")
    assert "~$0.24 an hour, price as of 2025-04-04" in text
