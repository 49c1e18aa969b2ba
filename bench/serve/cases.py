"""Test cases for every stack: a model, a body and its format, and the expected answer."""

from __future__ import annotations

import io
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

HANDLERS = Path(__file__).parent / "handlers"
JSON, NPY = "application/json", "application/x-npy"
_DECIMALS = 6


@dataclass(frozen=True)
class Case:
    """One model with one body format.

    Args:
        model: `noop`, `mlp` or `resnet18`.
        form: `json` or `npy`.
        clients: closed-loop clients, one measurement each.
        seconds: of each measurement.
        rounds: measurements of each stack, interleaved with the others'.
        pairs: see `paired_runs`.
    """

    model: str
    form: str
    clients: tuple[int, ...]
    seconds: float
    rounds: int
    pairs: int = 0

    @property
    def name(self) -> str:
        """`mlp, json`."""
        return f"{self.model}, {self.form}"

    @property
    def content_type(self) -> str:
        """The body's media type."""
        return JSON if self.form == "json" else NPY


FULL = (
    Case("mlp", "json", (1, 16, 64), 2.0, 3),
    Case("mlp", "npy", (1, 16, 64), 2.0, 2),
    Case("noop", "json", (1, 16, 64), 2.0, 2),
    Case("resnet18", "npy", (1, 16), 5.0, 2, pairs=10),
    Case("resnet18", "json", (1,), 5.0, 2, pairs=10),
)
QUICK = (Case("mlp", "json", (1, 16, 64), 1.0, 1),)


@dataclass(frozen=True)
class SampleRequest:
    """One item and its answer.

    Args:
        data: of shape (1, ...), as nested lists.
        npy: the same as NPY.
        answer: the prediction, flat.
    """

    data: Any
    npy: bytes
    answer: list[float]

    def body(self, case: Case) -> bytes:
        """The request body in the format of GPUproof and most peers."""
        return json.dumps(self.data).encode() if case.form == "json" else self.npy

    def longer(self, size: int) -> SampleRequest:
        """The same request padded with zeros, so that its NPY body has `size` bytes, or up to 7 fewer."""
        import numpy as np

        item = np.load(io.BytesIO(self.npy))
        more = (size - len(self.npy)) // item.itemsize
        stream = io.BytesIO()
        np.save(stream, np.pad(item.reshape(len(item), -1), ((0, 0), (0, more))))
        return replace(self, npy=stream.getvalue())


def model_folder(folder: Path, model: str, *, longer: bool = False) -> Path:
    """A model's folder as SageMaker lays it out, with the handler in `code/`.

    Args:
        longer: whether requests contain more numbers than the model uses: see `SampleRequest.longer`.
    """
    code = folder / (f"{model}-longer" if longer else model) / "code"
    code.mkdir(parents=True, exist_ok=True)
    for name in ("inference.py", "models.py", "bodies.py"):
        shutil.copy(HANDLERS / name, code / name)
    (code.parent / "bench.json").write_text(json.dumps({"model": model, "longer": longer}))
    return code.parent


class Reference:
    """The model in this process without a server: its inputs and its maximum rate."""

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(HANDLERS))
        # handlers/ is no package: peers import these as files of theirs.
        self._inference: Any = import_module("inference")
        self._shape: tuple[int, ...] = import_module("models").SHAPES[
            json.loads((folder / "bench.json").read_text())["model"]
        ]
        self._model = self._inference.model_fn(str(folder))

    def question(self) -> SampleRequest:
        """One item of random numbers with six decimals, and the model's answer to it."""
        import numpy as np
        import torch

        dice = np.random.default_rng(0)
        data = dice.random((1, *self._shape)).round(_DECIMALS).astype("float32")
        stream = io.BytesIO()
        np.save(stream, data)
        answer = self._inference.predict_fn(torch.from_numpy(data), self._model)
        short = [round(float(value), _DECIMALS) for value in data.ravel()]
        return SampleRequest(_nested(short, data.shape), stream.getvalue(), answer.ravel().tolist())

    def ceiling(self, batch: int, seconds: float) -> float:
        """Items a second in a loop over `predict_fn` with nothing around it, on one thread."""
        import torch

        data = torch.rand(batch, *self._shape)
        return batch / _median_of(lambda: self._inference.predict_fn(data, self._model), seconds)


def _median_of(action: Callable[[], object], seconds: float) -> float:
    """Median duration of a call, in seconds."""
    action()
    took: list[float] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        action()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def _nested(flat: list[float], shape: tuple[int, ...]) -> Any:
    if len(shape) == 1:
        return flat
    step = len(flat) // shape[0]
    return [_nested(flat[at : at + step], shape[1:]) for at in range(0, len(flat), step)]
