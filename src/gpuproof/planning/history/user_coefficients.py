"""The coefficients of this user: the built-in ones with the corrections that follow from the history."""

from __future__ import annotations

from dataclasses import replace

from gpuproof.planning.coefficients import Coefficients, builtin_coefficients
from gpuproof.planning.history.learning import corrections
from gpuproof.planning.history.store import HistoryStore


def user_coefficients(store: HistoryStore | None = None) -> Coefficients:
    """What estimates of this user are made with.

    Args:
        store: of the history; the user's own if None.
    """
    history = (store or HistoryStore()).read()
    return replace(builtin_coefficients(), corrections=corrections(history.comparisons))
