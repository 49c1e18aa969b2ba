"""The file that `measure_gpu.py` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from gpuproof.errors import UsageError

VERSION = 1
PACKAGE = "gpuproof.planning.calibration"
SCRIPT = "measure_gpu.py"
"""Trains the models, which is what is traced, and measures them."""
Key = tuple[str, str, int]


@dataclass(frozen=True)
class MeasuredStep:
    """A training step of one of the models.

    Args:
        model: its name.
        precision: `float32` or `half` (autocast).
        batch: samples.
        seconds: median of a step.
        unsteady: time of the third quartile over that of the first.
        reserved: bytes of PyTorch's segments at the peak; None on a CPU.
        context: bytes that are used besides; None on a CPU.
    """

    model: str
    precision: str
    batch: int
    seconds: float
    unsteady: float
    reserved: int | None
    context: int | None

    @property
    def key(self) -> Key:
        """Model, precision and batch."""
        return self.model, self.precision, self.batch


@dataclass(frozen=True)
class Measurements:
    """What was measured on one GPU.

    Args:
        gpu: its name by the driver; None for a CPU.
        torch: version of PyTorch.
        cuda: version of CUDA that PyTorch was built with.
        time: of the measurement, in seconds since the epoch.
        small: whether the models had toy sizes.
        used_before: bytes of the GPU's memory in use at the start, with this process's context.
        products: precision, size and seconds of square matrix products.
        bandwidth: bytes a second of an elementwise operator.
        steps: of the models.
        skipped: models and precisions without a time, with the reason.
    """

    gpu: str | None
    torch: str
    cuda: str | None
    time: float
    small: bool
    used_before: int
    products: tuple[tuple[str, int, float], ...]
    bandwidth: float
    steps: tuple[MeasuredStep, ...]
    skipped: tuple[str, ...]


def script_text() -> str:
    """The script that measures a GPU; it needs Python 3.9 and PyTorch."""
    return files(PACKAGE).joinpath(SCRIPT).read_text(encoding="utf-8")


def read_measurements(path: Path) -> Measurements:
    """Read a file of measurements.

    Raises:
        UsageError: it cannot be read, or is no such file.
    """
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from error
    except ValueError as error:
        raise UsageError(
            f"{path} is not JSON.", remedy="gpuproof calibrate --import calibration.json"
        ) from error
    if not isinstance(document, Mapping) or document.get("version") != VERSION:
        raise UsageError(
            f"{path} has no measurements of this version of GPUproof.",
            remedy="gpuproof calibrate --script measure_gpu.py writes the script that makes them.",
        )
    try:
        return _measurements(document)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is damaged: {type(error).__name__}: {error}.") from error


def _measurements(document: Mapping[str, Any]) -> Measurements:
    rows = document["steps"]
    gpu = document["gpu"]
    return Measurements(
        None if gpu is None else str(gpu),
        str(document["torch"]),
        document.get("cuda"),
        float(document["time"]),
        bool(document["small"]),
        int(document.get("used_before", 0)),
        tuple(
            (str(product["precision"]), int(product["size"]), _positive(product["seconds"]))
            for product in document["products"]
        ),
        _positive(document["bandwidth"]["elementwise"]),
        tuple(
            MeasuredStep(
                str(row["model"]),
                str(row["precision"]),
                int(row["batch"]),
                _positive(row["seconds"]),
                float(row["unsteady"]),
                row.get("reserved"),
                row.get("context"),
            )
            for row in rows
            if "skipped" not in row
        ),
        tuple(f"{row['model']}, {row['precision']}: {row['skipped']}" for row in rows if "skipped" in row),
    )


def _positive(value: Any) -> float:
    found = float(value)
    if not found > 0:
        raise ValueError(f"{value} is not positive")
    return found
