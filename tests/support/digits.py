"""Checks what the ranks of `train_digits.py` have printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def check_training(lines: Sequence[str], size: int) -> None:
    """Check that all ranks trained one model, each on examples of its own.

    Args:
        lines: of the logs of all hosts.
        size: number of ranks.
    """
    ranks: list[dict[str, Any]] = [
        json.loads(line[line.index('{"rank"') :]) for line in lines if '{"rank"' in line
    ]
    assert sorted(rank["rank"] for rank in ranks) == list(range(size)), lines
    assert {rank["size"] for rank in ranks} == {size}
    assert {rank["total"] for rank in ranks} == {size * (size + 1) / 2}
    assert len({rank["weights"] for rank in ranks}) == 1
    assert sorted(number for rank in ranks for number in rank["seen"]) == list(range(64))
