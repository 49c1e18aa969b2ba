"""The user's own calibrations: a file for each GPU in the folder of runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.errors import UsageError
from gpuproof.planning.calibration.fitting import Calibration
from gpuproof.planning.calibration.measurements import Measurements
from gpuproof.settings import state_dir
from gpuproof.util.atomic import write_json

VERSION = 1
_FOLDER = "calibrations"


@dataclass(frozen=True)
class StoredCalibration:
    """A calibration that plans use.

    Args:
        gpu: of the catalogue.
        time: of the measurement, in seconds since the epoch.
        coefficients: a document for `Coefficients.merged`.
        path: of the file.
    """

    gpu: str
    time: float
    coefficients: Mapping[str, Any]
    path: Path


def calibrations_folder() -> Path:
    """Where the files are; it may not exist."""
    return state_dir() / _FOLDER


def store_calibration(found: Calibration, measured: Measurements, folder: Path | None = None) -> Path:
    """Write a calibration, in place of an earlier one of the same GPU; returns the file.

    Args:
        found: the calibration.
        measured: from which it was fitted.
        folder: the user's own if None.
    """
    path = (folder or calibrations_folder()) / f"{re.sub(r'[^A-Za-z0-9-]', '_', found.gpu)}.json"
    document = {
        "version": VERSION,
        "gpu": found.gpu,
        "time": measured.time,
        "torch": measured.torch,
        "cuda": measured.cuda,
        "coefficients": found.coefficients,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, document)
    return path


def stored_calibrations(folder: Path | None = None) -> list[StoredCalibration]:
    """All that the user has, by the names of the GPUs.

    Raises:
        UsageError: a file is damaged, or of another version.
    """
    found: list[StoredCalibration] = []
    for path in sorted((folder or calibrations_folder()).glob("*.json")):
        try:
            document = json.loads(path.read_bytes())
            if document["version"] != VERSION:
                raise ValueError("another version")
            found.append(
                StoredCalibration(
                    str(document["gpu"]), float(document["time"]), dict(document["coefficients"]), path
                )
            )
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise UsageError(
                f"The calibration {path} cannot be read ({type(error).__name__}: {error}).",
                remedy="Delete it, and run `gpuproof calibrate` again.",
            ) from error
    return found
