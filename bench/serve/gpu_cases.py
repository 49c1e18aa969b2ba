"""What `bench/serve_gpu.py` measures: two networks, the ways to serve them, and how long."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cases import HANDLERS

ITEMS = 8
"""Different items whose answers are compared."""


@dataclass(frozen=True)
class Net:
    """One network and its inputs.

    Args:
        name: `resnet50` or `bert`.
        size: the arguments of its class in `handlers/deep_models.py`.
        shape: of one item, without the batch.
        dtype: of an item: `uint8` is a decoded image, height first; `int64` are token ids.
        most: exclusive upper bound of its values.
    """

    name: str
    size: Mapping[str, Any]
    shape: tuple[int, ...]
    dtype: str
    most: int

    def items(self) -> Any:
        """Eight different items as one array of numpy, the same each time: (8, *shape)."""
        import numpy as np  # start-up without a GPU does not need it

        dice = np.random.default_rng(0)
        if self.dtype == "int64":
            return dice.integers(0, self.most, (ITEMS, *self.shape), dtype=np.int64)
        # Large patches of colour: to a network that pools, fine noise looks the same in every image.
        height, width, _ = self.shape
        patches = dice.integers(0, self.most, (ITEMS, 2, 2, 3), dtype=np.uint8)
        return patches.repeat(height // 2, axis=1).repeat(width // 2, axis=2)

    def folder(self, scratch: Path) -> Path:
        """Its folder as SageMaker lays it out, with the handler in `code/`."""
        code = scratch / self.name / "code"
        code.mkdir(parents=True, exist_ok=True)
        shutil.copy(HANDLERS / "gpu_inference.py", code / "inference.py")
        shutil.copy(HANDLERS / "deep_models.py", code)
        described = {"model": self.name, "size": dict(self.size)}
        (code.parent / "bench.json").write_text(json.dumps(described))
        return code.parent


RESNET50 = Net(
    "resnet50", {"width": 64, "blocks": (3, 4, 6, 3), "classes": 1000}, (224, 224, 3), "uint8", 256
)
BERT = Net(
    "bert",
    {"layers": 12, "width": 768, "heads": 12, "tokens": 30522, "positions": 512},
    (128,),
    "int64",
    30522,
)
SMALL_RESNET = Net("resnet50", {"width": 8, "blocks": (1, 1, 1, 1), "classes": 10}, (32, 32, 3), "uint8", 256)
SMALL_BERT = Net(
    "bert", {"layers": 2, "width": 64, "heads": 4, "tokens": 100, "positions": 16}, (16,), "int64", 100
)


@dataclass(frozen=True)
class Variant:
    """One way to serve: flags of `gpuproof serve`, which the bare loop takes as well.

    Args:
        name: `fp32`, `autocast`, `compile` or `cuda-graphs`.
        autocast: `bf16` or `fp16`; empty for none.
        switch: one additional flag.
    """

    name: str
    autocast: str = ""
    switch: str = ""

    @property
    def flags(self) -> list[str]:
        """The flags as command-line arguments."""
        return [*(["--autocast", self.autocast] if self.autocast else []), *filter(None, [self.switch])]

    @property
    def tolerance(self) -> float:
        """How far an answer may be from the bare loop's, as a share of the largest number of all answers.

        Other batch sizes take other kernels, which sum in another order; float32 convolutions use TF32 (10 bits).
        """
        return 3e-2 if self.autocast else 1e-2


def variants(half: str) -> tuple[Variant, ...]:
    """All variants, with the given type for mixed precision."""
    return (
        Variant("fp32"),
        Variant("autocast", half),
        Variant("compile", half, "--compile"),
        Variant("cuda-graphs", half, "--cuda-graphs"),
    )


@dataclass(frozen=True)
class Plan:
    """Extent of the measurements. Times are in seconds.

    Args:
        nets: in this order.
        ways: their names.
        clients: closed-loop clients, one measurement each.
        seconds: of each measurement of the server; integers, since wrk accepts no others.
        bare: seconds of each measurement of the bare loop.
        rounds: measurements of each number of clients.
        warm: load before each measurement.
        tries: attempts for a measurement that other programs disturb.
        batches: sizes of the bare loop's batches.
    """

    nets: tuple[Net, ...]
    variants: tuple[str, ...]
    clients: tuple[int, ...]
    seconds: float
    bare: float
    rounds: int
    warm: float
    tries: int
    batches: tuple[int, ...] = field(default=(1, 32))


FULL = Plan(
    (RESNET50, BERT), ("fp32", "autocast", "compile", "cuda-graphs"), (1, 16, 64), 3.0, 3.0, 3, 1.0, 2
)
QUICK = Plan((SMALL_RESNET, SMALL_BERT), ("fp32", "autocast"), (1, 64), 1.0, 0.2, 1, 0.0, 1)


def as_npy(array: Any) -> bytes:
    """An array of numpy as a body."""
    import numpy as np

    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()
