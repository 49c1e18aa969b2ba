"""A program that only uses boto3 trains, processes and serves; it only needs the environment that the emulator prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.aws_emulator import running_emulator
from support.emulator_jobs import IMAGE
from support.sdk_scripts import run_script

pytestmark = pytest.mark.slow


def test_boto3_trains_processes_and_serves(tmp_path: Path) -> None:
    # An emulator as `gpuproof emulator` starts it: its own role, its own patience.
    with running_emulator(tmp_path, role=True, hold=20.0) as emulator:
        words = ("arn:aws:iam::123456789012:role/emulator", emulator.bucket(), IMAGE)
        output = run_script("plain_boto3", None, emulator, words[1], tmp_path / "home", *words)
    assert output["status"] == "Completed"
    assert output["names"] == "factor.json"
    assert output["answer"] == [3, 6]
    assert output["left"] == []
