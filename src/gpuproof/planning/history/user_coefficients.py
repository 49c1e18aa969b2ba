"""The coefficients of this user: the built-in ones, with calibrations of GPUs, and with the corrections that follow from the history."""

from __future__ import annotations

from dataclasses import replace

from gpuproof.planning.calibration.store import stored_calibrations
from gpuproof.planning.coefficients import Coefficients, builtin_coefficients
from gpuproof.planning.history.learning import corrections
from gpuproof.planning.history.store import HistoryStore


def user_coefficients(store: HistoryStore | None = None) -> Coefficients:
    """What estimates of this user are made with.

    Args:
        store: of the history; the user's own if None.

    Raises:
        UsageError: a calibration is damaged.
    """
    known = builtin_coefficients()
    for calibration in stored_calibrations():
        known = known.merged(calibration.coefficients)
        known = replace(known, calibrated=(*known.calibrated, calibration.gpu))
    history = (store or HistoryStore()).read()
    return replace(known, corrections=corrections(history.comparisons))
