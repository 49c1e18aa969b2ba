"""Time of `gpuproof cleanup` for 500 endpoints in 20 regions, with and without throttling, and who spends it.

    python bench/cleanup.py [--rounds 3] [--rate 10] [--save]

The emulator answers on the same machine, in a process of its own, so that its processor time is a part of what is measured, and is
shown. AWS's network has latency instead: `--latency 50` delays each answer by so many milliseconds. With throttling, SageMaker accepts
`--rate` requests a second in a region, and rejects the others with `ThrottlingException`. Aim: under 10 s. `--save` writes
`bench/results/`, unless the machine is busy.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.account.account_bench import REGIONS, AccountBench

ENDPOINTS = 500


def _add_endpoints(account: Any, region: str, support: Any) -> None:
    for number in range(ENDPOINTS // REGIONS):
        # A quarter of them are GPUproof's; five endpoints share a configuration.
        config = None if number % 5 == 0 else f"e-{number - number % 5}-config"
        account.endpoint(f"e-{number}", region, config=config, tags=support.OWN if number % 4 == 0 else {})


def _check(document: dict[str, Any]) -> str | None:
    count = Counter(resource["kind"] for resource in document["resources"])["endpoint"]
    return None if count == ENDPOINTS else f"it listed {count} endpoints"


BENCH = AccountBench(
    Path(__file__),
    "cleanup",
    {"endpoints": ENDPOINTS},
    f"{ENDPOINTS} endpoints",
    10.0,
    ("sagemaker",),
    _add_endpoints,
    _check,
)

if __name__ == "__main__":
    sys.exit(BENCH.main(__doc__, rate=5))
