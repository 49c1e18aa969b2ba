"""The line that says what a run cost."""

from __future__ import annotations

import pytest

from gpuproof.backends.record import RunRecord
from gpuproof.cli.billing import billing_text, spot_text

RUN = {
    "id": "a",
    "job_name": "a",
    "kind": "training",
    "backend": "sagemaker",
    "status": "Completed",
    "created": 0,
    "instance_type": "ml.g5.xlarge",
}


@pytest.mark.parametrize(
    ("billed", "text"),
    [
        ({}, None),
        ({"billed_seconds": 60.0, "cost_usd": 1.0}, "$1.00: 60 s of ml.g5.xlarge"),
        ({"billed_seconds": 60.0, "cost_usd": 4.0, "instance_count": 4}, "$4.00: 60 s of 4 x ml.g5.xlarge"),
        ({"billed_seconds": 60.0}, "60 s of ml.g5.xlarge, price unknown"),
        (
            {"billed_seconds": 60.0, "cost_usd": 1.0, "spot_saving": 0.7},
            "$1.00: 60 s of ml.g5.xlarge; spot saved 70 %",
        ),
    ],
)
def test_a_bill_names_what_it_is_for(billed: dict[str, float], text: str | None) -> None:
    assert billing_text(RunRecord.of({**RUN, **billed})) == text


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ({}, None),
        ({"spot_saved_usd": 0.0, "interruptions": 0, "lost_seconds": 0.0, "attempt": 1}, None),
        ({"spot_saved_usd": 2.4, "interruptions": 0, "attempt": 1}, "$2.40 less than on demand"),
        ({"interruptions": 1, "lost_seconds": 750.0, "attempt": 1}, "1 interruption, 12 min 30 s lost"),
        (
            {"spot_saved_usd": -0.5, "interruptions": 1, "lost_seconds": 750.0, "attempt": 1},
            "1 interruption, 12 min 30 s lost; $0.50 more than on demand",
        ),
        (
            {
                "spot_saved_usd": 2.4,
                "interruptions": 2,
                "lost_seconds": 750.0,
                "attempt": 3,
                "all_attempts_usd": 1.2,
            },
            "2 interruptions, 12 min 30 s lost; 3 attempts cost $1.20, $2.40 less than on demand",
        ),
    ],
)
def test_what_spot_capacity_saved_counts_what_its_interruptions_lost(
    known: dict[str, float], text: str | None
) -> None:
    assert spot_text(RunRecord.of({**RUN, **known})) == text
