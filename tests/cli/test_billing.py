"""The line that says what a run cost."""

from __future__ import annotations

import pytest

from gpuproof.backends.record import RunRecord
from gpuproof.cli.billing import billing_text


@pytest.mark.parametrize(
    ("billed", "text"),
    [
        ({}, None),
        ({"billed_seconds": 60.0, "cost_usd": 1.0}, "$1.00: 1:00 of ml.g5.xlarge"),
        ({"billed_seconds": 60.0, "cost_usd": 4.0, "instance_count": 4}, "$4.00: 1:00 of 4 x ml.g5.xlarge"),
        ({"billed_seconds": 60.0}, "1:00 of ml.g5.xlarge, price unknown"),
        (
            {"billed_seconds": 60.0, "cost_usd": 1.0, "spot_saving": 0.7},
            "$1.00: 1:00 of ml.g5.xlarge; spot saved 70 %",
        ),
    ],
)
def test_a_bill_names_what_it_is_for(billed: dict[str, float], text: str | None) -> None:
    run = {
        "id": "a",
        "job_name": "a",
        "kind": "training",
        "place": "sagemaker",
        "status": "Completed",
        "created": 0,
    }
    assert billing_text(RunRecord.of({**run, "instance_type": "ml.g5.xlarge", **billed})) == text
