"""The model in a separate process without a server, which predicts for a given time on request.

    python -P bench/serve/timed_loop.py FOLDER ITEM.npy BODY CONTENT_TYPE SECONDS

Each line of standard input requests a number of seconds of a loop: `predict` over `predict_fn` alone, `body` over reading the
body, `predict_fn` and writing the answer as scripts do, `codecs` over the same with GPUproof's own codecs. It answers with a
line: the median seconds of one turn.
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
import statistics
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpuproof.serve.codecs import registry as codecs


def main() -> int:
    """Answer until standard input ends."""
    folder, item, body_file, kind, seconds = sys.argv[1:]
    sys.path.insert(0, str(Path(folder) / "code"))
    inference: Any = import_module("inference")
    bodies: Any = import_module("bodies")
    model = inference.model_fn(folder)
    data = torch.from_numpy(np.load(item))
    body = Path(body_file).read_bytes()

    def predict() -> object:
        return inference.predict_fn(data, model)

    def answer() -> object:
        output = bodies.write(inference.predict_fn(bodies.read(body, kind), model), kind)
        return output if isinstance(output, bytes) else json.dumps(output).encode()

    def answer_as_gpuproof() -> object:
        read = torch.from_numpy(codecs.read_body(memoryview(body), kind, np.float32))
        return codecs.write_body(inference.predict_fn(read, model).numpy(), kind)

    turns = {"predict": predict, "body": answer, "codecs": answer_as_gpuproof}
    for turn in turns.values():
        turn()
    for line in sys.stdin:
        turn = turns[line.strip()]
        took: list[float] = []
        until = time.perf_counter() + float(seconds)
        while (began := time.perf_counter()) < until:
            turn()
            took.append(time.perf_counter() - began)
        print(statistics.median(took), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
