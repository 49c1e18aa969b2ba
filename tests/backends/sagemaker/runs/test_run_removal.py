"""What `gpuproof rm` takes away of a run on SageMaker, and what it leaves."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.slow

SAVES = "import pathlib\npathlib.Path('/opt/ml/checkpoints/step').write_text('1')\n"


def test_checkpoints_are_kept_with_a_note_how_to_remove_them(aws: Any) -> None:
    prefix = "gpuproof/checkpoints/train/first/"
    address = f"s3://{aws.jobs.bucket}/{prefix}"
    run = aws.ended(SAVES, CheckpointConfig={"S3Uri": address, "LocalPath": "/opt/ml/checkpoints"})
    output = run.remove()
    assert f"aws s3 rm --recursive {address}" in output
    assert aws.keys(prefix) == [f"{prefix}step"]
    assert aws.keys(f"gpuproof/runs/{run.id}/") == []


def test_without_checkpoints_they_are_not_mentioned(aws: Any) -> None:
    assert "checkpoints" not in aws.ended("").remove()
