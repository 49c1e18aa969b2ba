"""How long `gpuproof plan` traces models of 100 million to 30 billion parameters, in how much memory, and whether twice the same.

    python bench/trace_limits.py [--sizes 100M 1B 7B 30B] [--write]

Aims: 15 s up to one billion parameters, 60 s at 30 billion, 4 GiB of this machine's memory, on two cores. A trace is that of a process of
its own with its start and the import of PyTorch: three steps of AdamW on a language model in bfloat16. --write stores the figures in
bench/results/trace_limits.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gpuproof.planning.tracing import TraceRequest, trace_script
from gpuproof.trace.document import Trace, write_trace

RESULTS = Path(__file__).resolve().parent / "results" / "trace_limits.json"
MAX_MEMORY = 4 << 30
SIZES = {"100M": (768, 12, 12), "1B": (2048, 20, 16), "7B": (4096, 32, 32), "30B": (6656, 60, 52)}
"""Width, blocks and heads; those of GPT-2 and of LLaMA's models."""
LIMIT_S = {"100M": 15.0, "1B": 15.0, "7B": 60.0, "30B": 60.0}

SCRIPT = """
import sys

import torch
from torch import nn
from torch.nn import functional

width, blocks, heads = (int(word) for word in sys.argv[1:4])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.mix(self.first(x)).view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.shrink(functional.gelu(self.grow(self.second(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(32000, width), nn.Embedding(2048, width)
        self.blocks = nn.Sequential(*[Block() for _ in range(blocks)])
        self.head = nn.Linear(width, 32000, bias=False)

    def forward(self, x):
        return self.head(self.blocks(self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))))


model = Model().to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters())
while True:
    x = torch.randint(0, 32000, (4, 1025), device="cuda")
    loss = functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@dataclass(frozen=True)
class Row:
    """Two traces of one model.

    Args:
        size: name of the model.
        parameters: how many it has.
        seconds: of the faster trace, from the start of its process to its document.
        peak_rss: bytes of the tracing process, the larger of the two.
        document_bytes: of the trace as JSON.
        same: whether both documents are identical, but for times and memory of the tracing process.
    """

    size: str
    parameters: int
    seconds: float
    peak_rss: int
    document_bytes: int
    same: bool


def main() -> int:
    """Print the figures; returns 1 if an aim is missed."""
    options = _arguments()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(SCRIPT)
        for size in options.sizes:
            row = measure(script, size)
            rows.append(row)
            print(
                f"{size:>5}  {row.parameters:>14,} parameters  {row.seconds:5.1f} s  {row.peak_rss / 2**30:.2f} GiB  "
                f"document {row.document_bytes / 2**20:.1f} MiB  {'same' if row.same else 'DIFFERENT'}",
                flush=True,
            )
    if options.write:
        machine = f"{platform.machine()}, {os.cpu_count()} cores"
        document = {"machine": machine, "load": os.getloadavg()[0], "rows": [asdict(row) for row in rows]}
        RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(is_met(row) for row in rows) else 1


def measure(script: Path, size: str) -> Row:
    """Trace one model twice."""
    request = TraceRequest(
        script, arguments=tuple(str(argument) for argument in SIZES[size]), max_memory=2 * MAX_MEMORY
    )
    traces: list[Trace] = []
    seconds: list[float] = []
    for _ in range(2):
        start = time.monotonic()
        traces.append(trace_script(request))
        seconds.append(time.monotonic() - start)
    first, second = (write_trace(_without_times(trace)) for trace in traces)
    peak = max(trace.peak_rss for trace in traces)
    return Row(size, traces[0].parameters, round(min(seconds), 1), peak, len(first), first == second)


def is_met(row: Row) -> bool:
    """Whether the aims are met."""
    return row.same and row.seconds <= LIMIT_S[row.size] and row.peak_rss <= MAX_MEMORY


def _without_times(trace: Trace) -> Trace:
    return replace(trace, seconds=0.0, peak_rss=0, input=replace(trace.input, host_s=None))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--write", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
