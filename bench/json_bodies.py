"""Compares parsers of JSON bodies side by side: text to an array of 32-bit floats.

    python bench/json_bodies.py

Parsers that are not installed are left out (`pip install msgspec pysimdjson`). Bodies are those of tests and examples: a row of features,
an image, a batch of images, and many short rows. Times are CPU milliseconds, the least of several calls in turns.
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from gpuproof.serve.codecs import json_fast

SHAPES = ((1, 3_000), (1, 37_632), (32, 784), (64, 3_072), (100_000, 4))
_TURNS = 5


def parsers() -> dict[str, Callable[[bytes], Any]]:
    """What is compared: the result of each is an array."""
    found: dict[str, Callable[[bytes], Any]] = {"json": lambda body: json_fast.pack(json.loads(body))}
    for name in ("orjson", "msgspec", "simdjson"):
        try:
            module: Any = import_module(name)
        except ImportError:
            continue
        if name == "simdjson":
            found[name] = _simdjson(module)
            continue
        loads = module.loads if name == "orjson" else module.json.Decoder().decode
        found[name] = lambda body, loads=loads: json_fast.pack(loads(body))
    return found


def _simdjson(module: Any) -> Callable[[bytes], Any]:
    import numpy as np

    parser = module.Parser()

    def parse(body: bytes) -> Any:
        return np.frombuffer(parser.parse(body).as_buffer(of_type="d")).astype(np.float32)

    return parse


def main() -> None:
    """Print a table."""
    compared = parsers()
    print("| rows x numbers | bytes | " + " | ".join(compared) + " |")
    for rows, numbers in SHAPES:
        random.seed(1)
        body = json.dumps([[random.random() for _ in range(numbers)] for _ in range(rows)]).encode()
        least = dict.fromkeys(compared, float("inf"))
        for _ in range(_TURNS):
            for name, parse in compared.items():
                begun = time.process_time()
                parse(body)
                least[name] = min(least[name], time.process_time() - begun)
        times = " | ".join(f"{1000 * seconds:.2f} ms" for seconds in least.values())
        print(f"| {rows} x {numbers} | {len(body)} | {times} |")


if __name__ == "__main__":
    main()
