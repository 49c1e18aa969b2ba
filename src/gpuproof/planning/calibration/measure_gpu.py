"""Measures a GPU for `gpuproof plan`: products, copies, and training steps of six models. Needs PyTorch and nothing else.

    python measure_gpu.py --output calibration.json
    gpuproof calibrate --import calibration.json

It runs for a few minutes. Nothing else should use the GPU meanwhile.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

VERSION = 1
PRECISIONS = ("float32", "half")
WARM_UP, STEPS = 4, 16
PRODUCTS = (1024, 2048, 4096, 8192)
"""Rows, columns and depth of the measured matrix products."""
BANDWIDTH_BYTES = 256 << 20
COPY_BYTES = 64 << 20
SMALL_PRODUCTS, SMALL_BYTES = (64, 128, 256), 1 << 20
HALVINGS = 3
"""How often a batch that does not fit is halved."""


Data = Callable[[int, str], "tuple[torch.Tensor, torch.Tensor]"]
Models = dict[str, "tuple[Callable[[], nn.Module], Data, int]"]
"""By name: a function that makes the model, one that makes inputs and targets for a batch on a device, and the batch size."""


class ConvNet(nn.Module):
    """Residual blocks of convolutions with batch normalization, as in ResNet."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, stride=4, padding=3, bias=False)
        self.blocks = nn.ModuleList()
        for stage in range(3):
            channels = width << stage
            for _ in range(3):
                block = [nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)]
                block += [nn.ReLU(inplace=True), nn.Conv2d(channels, channels, 3, padding=1, bias=False)]
                self.blocks.append(nn.Sequential(*block, nn.BatchNorm2d(channels)))
        self.down = nn.ModuleList(nn.Conv2d(width << s, width << (s + 1), 1, stride=2) for s in range(2))
        self.head = nn.Linear(width << 2, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.stem(images)
        for index, block in enumerate(self.blocks):
            if index in (3, 6):
                x = self.down[index // 3 - 1](x)
            x = functional.relu(x + block(x))
        return self.head(x.mean((2, 3)))


class SeparableNet(nn.Module):
    """Depthwise and pointwise convolutions, as in MobileNet."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, width, 3, stride=2, padding=1)]
        for _ in range(8):
            layers += [nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False), nn.BatchNorm2d(width)]
            layers += [nn.SiLU(), nn.Conv2d(width, width, 1, bias=False), nn.BatchNorm2d(width)]
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.second(x))


class Transformer(nn.Module):
    """An encoder of images' patches, or a decoder of tokens."""

    def __init__(self, width: int, depth: int, words: int, causal: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*(Block(width, width // 64, causal) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words if causal else 1000)
        self.causal = causal

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.blocks(self.embedding(tokens)))
        return self.head(x if self.causal else x.mean(1))


class Recurrent(nn.Module):
    """An LSTM over tokens."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(tokens))[0])


class Recommender(nn.Module):
    """Large embeddings and a small network, as in click prediction."""

    def __init__(self, rows: int, width: int, tables: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.layers = nn.Sequential(
            nn.Linear(width * tables, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 2)
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.layers(torch.cat([table(ids[:, i]) for i, table in enumerate(self.tables)], 1))


def models(*, small: bool) -> Models:
    """The six models of a calibration."""

    def images(size: int) -> Data:
        return lambda n, at: (torch.randn(n, 3, size, size, device=at), torch.randint(1000, (n,), device=at))

    def tokens(words: int, length: int, *, each: bool) -> Data:
        shape = (length,) if each else ()
        labels = words if each else 1000
        return lambda n, at: (
            torch.randint(words, (n, length), device=at),
            torch.randint(labels, (n, *shape), device=at),
        )

    def rows(count: int, tables: int) -> Data:
        return lambda n, at: (
            torch.randint(count, (n, tables), device=at),
            torch.randint(2, (n,), device=at),
        )

    if small:
        return {
            "convnet": (lambda: ConvNet(8), images(32), 4),
            "separable": (lambda: SeparableNet(8), images(16), 4),
            "encoder": (lambda: Transformer(64, 1, 100, causal=False), tokens(100, 16, each=False), 4),
            "decoder": (lambda: Transformer(64, 1, 100, causal=True), tokens(100, 16, each=True), 4),
            "lstm": (lambda: Recurrent(32, 100), tokens(100, 8, each=True), 4),
            "recommender": (lambda: Recommender(100, 8, 3), rows(100, 3), 16),
        }
    return {
        "convnet": (lambda: ConvNet(64), images(224), 64),
        "separable": (lambda: SeparableNet(128), images(112), 64),
        "encoder": (lambda: Transformer(768, 12, 1000, causal=False), tokens(1000, 197, each=False), 48),
        "decoder": (lambda: Transformer(768, 12, 32_000, causal=True), tokens(32_000, 512, each=True), 8),
        "lstm": (lambda: Recurrent(1024, 10_000), tokens(10_000, 64, each=True), 64),
        "recommender": (lambda: Recommender(1_000_000, 64, 6), rows(1_000_000, 6), 16_384),
    }


def training(known: Models, name: str, batch: int, precision: str, device: str) -> Callable[[], None]:
    """A function that makes one training step; the optimizer's state comes with the first."""
    make, data, _ = known[name]
    torch.manual_seed(0)
    model = make().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    inputs, targets = data(batch, device)
    half = torch.bfloat16 if device == "cpu" else torch.float16

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, half, enabled=precision == "half"):
            output = model(inputs)
        loss = functional.cross_entropy(output.float().flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()

    return step


def seconds_of(call: Callable[[], Any], device: str, *, times: int, warm_up: int = WARM_UP) -> list[float]:
    """Seconds of each of several calls, by the GPU's clock."""
    for _ in range(warm_up):
        call()
    found: list[float] = []
    for _ in range(times):
        if device == "cuda":
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            call()
            end.record()
            end.synchronize()
            found.append(start.elapsed_time(end) / 1e3)
        else:
            begin = time.perf_counter()
            call()
            found.append(time.perf_counter() - begin)
    return found


def measure_step(known: Models, name: str, batch: int, precision: str, device: str) -> dict[str, Any]:
    """A row of a model, with a smaller batch if it does not fit; `skipped` says why it has no time."""
    for _ in range(HALVINGS + 1):
        try:
            return _measured_step(known, name, batch, precision, device)
        except torch.cuda.OutOfMemoryError:
            batch = max(1, batch // 2)
        except RuntimeError as error:
            if device == "cuda":
                raise  # after an error of CUDA, nothing that this process measures is right
            # oneDNN has no LSTM in bfloat16 for CPUs without AVX-512.
            reason = str(error).partition("\n")[0]
            return {"model": name, "precision": precision, "skipped": f"PyTorch cannot run it here: {reason}"}
        finally:
            gc.collect()
            if device == "cuda":
                torch.cuda.empty_cache()
    return {"model": name, "precision": precision, "skipped": "it does not fit into the GPU's memory"}


def _measured_step(known: Models, name: str, batch: int, precision: str, device: str) -> dict[str, Any]:
    cuda = device == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    step = training(known, name, batch, precision, device)
    times = sorted(seconds_of(step, device, times=STEPS))
    row: dict[str, Any] = {"model": name, "batch": batch, "precision": precision}
    row["seconds"] = statistics.median(times)
    row["unsteady"] = times[len(times) * 3 // 4] / times[len(times) // 4]
    if cuda:
        free, total = torch.cuda.mem_get_info()
        row["reserved"] = torch.cuda.max_memory_reserved()
        row["context"] = total - free - torch.cuda.memory_reserved()
    return row


def products(device: str, *, small: bool) -> list[dict[str, Any]]:
    """Seconds of square matrix products."""
    half = torch.bfloat16 if device == "cpu" else torch.float16
    found: list[dict[str, Any]] = []
    for precision, dtype in (("float32", torch.float32), ("half", half)):
        for size in SMALL_PRODUCTS if small else PRODUCTS:
            left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
            times = seconds_of(lambda left=left, right=right: left @ right, device, times=STEPS)
            found.append({"precision": precision, "size": size, "seconds": statistics.median(times)})
    return found


def bandwidths(device: str, *, small: bool) -> dict[str, float]:
    """Bytes a second of an elementwise operator (two read, one written) and, on a GPU, of a copy from the host."""
    size = SMALL_BYTES if small else BANDWIDTH_BYTES
    left, right = (torch.zeros(size // 4, device=device) for _ in range(2))
    out = torch.empty_like(left)
    seconds = statistics.median(seconds_of(lambda: torch.add(left, right, out=out), device, times=STEPS))
    found = {"elementwise": 3 * size / seconds}
    if device == "cuda":
        host = torch.empty(COPY_BYTES, dtype=torch.uint8).pin_memory()
        seconds = statistics.median(
            seconds_of(lambda: host.to(device, non_blocking=True), device, times=STEPS)
        )
        found["from_host"] = COPY_BYTES / seconds
    return found


def machine(device: str) -> dict[str, Any]:
    """What was measured."""
    found: dict[str, Any] = {"torch": torch.__version__, "device": device, "time": time.time(), "gpu": None}
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        free, total = torch.cuda.mem_get_info()
        found.update(gpu=properties.name, memory=total, used_before=total - free, cuda=torch.version.cuda)
    return found


def measure(known: Models, output: Path, device: str, budget: float, *, small: bool, batches: int) -> int:
    """Measure everything within the time; what was measured so far is always in the file."""
    end = time.monotonic() + budget
    document: dict[str, Any] = {"version": VERSION, "small": small, **machine(device)}
    print(f"Measuring {document['gpu'] or 'the CPU'} …", file=sys.stderr, flush=True)
    document["products"] = products(device, small=small)
    document["bandwidth"] = bandwidths(device, small=small)
    document["steps"] = []
    sizes = [(name, entry[2] << doubled) for name, entry in known.items() for doubled in range(batches)]
    for name, batch in sizes:
        for precision in PRECISIONS:
            row: dict[str, Any] = {"model": name, "precision": precision}
            if time.monotonic() > end:
                row["skipped"] = "no time was left (--budget)"
            else:
                row = measure_step(known, name, batch, precision, device)
            document["steps"].append(row)
            shown = row.get("skipped") or f"{1e3 * float(row['seconds']):.2f} ms a step of {row['batch']}"
            print(f"  {name}, {precision}: {shown}", file=sys.stderr, flush=True)
            _write(output, document)
    return 0


def _write(output: Path, document: dict[str, Any]) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f"{output.name}.part")
    partial.write_text(json.dumps(document, indent=1) + "\n")
    partial.replace(output)


def main(table: Callable[..., Models] = models) -> int:
    """Measure, or train one model, which is how `gpuproof calibrate` traces it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    folder = Path(os.environ.get("SM_MODEL_DIR", "."))
    parser.add_argument("--output", type=Path, default=folder / "calibration.json", help="the file to write")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--budget", type=float, default=600, help="seconds, after which no model is started")
    parser.add_argument(
        "--batches", type=int, default=1, help="batch sizes of each model, each twice the last"
    )
    parser.add_argument("--small", action="store_true", help="toy sizes, to try it out")
    parser.add_argument(
        "--train", choices=list(table(small=True)), help="only train this model for a few steps"
    )
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch finds no GPU here.", file=sys.stderr)
        return 3
    known = table(small=options.small)
    if options.train is None:
        return measure(
            known,
            options.output,
            options.device,
            options.budget,
            small=options.small,
            batches=options.batches,
        )
    step = training(known, options.train, options.batch, options.precision, options.device)
    for _ in range(10):
        step()
    return 0


if __name__ == "__main__":
    sys.exit(main())
