"""Slowdowns of classes of operators from measured steps: ridge regression on the roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuproof.planning.coefficients import Coefficients

KINDS = (
    *("gemm", "bmm", "attention", "conv", "grouped-conv", "depthwise-conv", "norm", "softmax", "elementwise"),
    *("reduction", "pool", "index", "optimizer", "other"),
)
_RIDGE = 0.15
_ROUNDS = 60


@dataclass(frozen=True)
class Row:
    """A measured step as the regression needs it.

    Args:
        seconds: that were measured.
        by_class: seconds by the roofline with all slowdowns 1.
        rest: seconds of starts and communication.
    """

    seconds: float
    by_class: Mapping[str, float]
    rest: float


def plain(known: Coefficients, shares: Mapping[str, tuple[float, float]]) -> Coefficients:
    """Coefficients with all slowdowns 1 and no time to start kernels.

    Args:
        known: for what else they have.
        shares: of the peak and of the bandwidth, by precision.
    """
    rates = {
        precision: {"compute": compute, "bandwidth": bandwidth, "slowdown": dict.fromkeys(KINDS, 1.0)}
        for precision, (compute, bandwidth) in shares.items()
    }
    return replace(known, time={**known.time, "gpus": {}, "default": rates, "kernel_s": 0.0}, corrections=())


def fit_slowdowns(
    rows: Sequence[Row], prior: Mapping[str, float], ridge: float = _RIDGE, *, robust: bool = True
) -> dict[str, float]:
    """The slowdown of each class that minimizes the relative residuals.

    Args:
        rows: of one GPU and precision.
        prior: to which a class that the rows say little about stays close.
        ridge: weight of the prior, in rows.
        robust: large residuals count less, because tables have rows that something else slowed down.
    """
    factors = {kind: prior.get(kind, 1.0) for kind in KINDS}
    shares = [{kind: row.by_class.get(kind, 0.0) / row.seconds for kind in KINDS} for row in rows]
    targets = [1 - row.rest / row.seconds for row in rows]
    for _ in range(_ROUNDS):
        errors = [
            sum(share[kind] * factors[kind] for kind in KINDS) - target
            for share, target in zip(shares, targets, strict=True)
        ]
        weights = [1 / max(0.05, abs(error)) if robust else 1.0 for error in errors]
        scale = sum(weights) / len(weights)
        for kind in KINDS:
            gradient = square = 0.0
            for index, share in enumerate(shares):
                rest = errors[index] - share[kind] * factors[kind]
                gradient += weights[index] * share[kind] * rest
                square += weights[index] * share[kind] ** 2
            new = max(0.2, (ridge * scale * prior.get(kind, 1.0) - gradient) / (square + ridge * scale))
            for index, share in enumerate(shares):
                errors[index] += share[kind] * (new - factors[kind])
            factors[kind] = new
    return factors


def predict(row: Row, slowdowns: Mapping[str, float]) -> float:
    """Seconds of a step."""
    return row.rest + sum(seconds * slowdowns.get(kind, 1.0) for kind, seconds in row.by_class.items())
