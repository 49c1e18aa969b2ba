"""What the user's own runs say about estimates: a bias that is corrected, and errors that narrow or widen the range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, log
from statistics import median
from typing import Literal

from gpuproof.planning.estimates import Interval, Tier

Quantity = Literal["memory", "time"]
ENOUGH = 5
"""Compared cases from which on estimates are corrected."""
_PRIOR_CASES = 5.0
"""How many own cases the built-in range and the assumption of no bias count for."""
_COVERAGE = 0.9
"""Of each side, so that 80 % are within both."""
_NARROWEST = {"memory": 0.02, "time": 0.05}
"""Logarithm of the smallest factor to each side: the same run differs by as much from one day to the next."""


@dataclass(frozen=True)
class Correction:
    """A correction of estimates, from runs that were compared with their plans.

    With n cases and weight w = n / (n + 5), an estimate is multiplied by the exponential of w times the median of
    ln(measured / estimated). To each side, the limit is (1 - w) times the built-in one plus w times the own one, as logarithms of
    factors of the estimate. The own limit is the order statistic of split conformal prediction, number ceil(0.9 (n + 1)) of the n
    errors that are left (for the lower limit from the other end), and the largest one with fewer than 9 cases.

    Source: split conformal prediction, Lei et al., "Distribution-Free Predictive Inference for Regression" (2018),
    https://arxiv.org/abs/1604.04173; the weight is that of a prior worth five cases.

    Args:
        quantity: what is corrected.
        gpu: of the catalogue; None for all GPUs of the tier.
        tier: of the estimates of time; None for memory.
        cases: how many scripts with their arguments were compared.
        bias: added to the logarithm of the estimate.
        low: the own lower limit, as the logarithm of a factor.
        high: the own upper limit.
        weight: of the own limits, from 0 to 1.
    """

    quantity: Quantity
    gpu: str | None
    tier: Tier | None
    cases: int
    bias: float
    low: float
    high: float
    weight: float

    def applied(self, estimate: Interval) -> Interval:
        """The estimate with its bias removed and its range as the own runs show it; never narrower than 2 % of memory, 5 % of time."""
        if estimate.value <= 0:
            return estimate
        narrowest = _NARROWEST[self.quantity]
        built_in = (
            log(max(estimate.low, 1e-12) / estimate.value),
            log(estimate.high / estimate.value),
        )
        low = min(-narrowest, (1 - self.weight) * built_in[0] + self.weight * self.low)
        high = max(narrowest, (1 - self.weight) * built_in[1] + self.weight * self.high)
        value = estimate.value * exp(self.bias)
        return Interval(value * exp(low), value, value * exp(high))


def correction(
    quantity: Quantity, ratios: Sequence[float], *, gpu: str | None = None, tier: Tier | None = None
) -> Correction | None:
    """The correction that follows from compared cases; None from fewer than five.

    Args:
        quantity: what was compared.
        ratios: measured by estimated, the estimates without any correction, one for each case.
        gpu: on which; None if on several.
        tier: of the estimates of time.
    """
    count = len(ratios)
    if count < ENOUGH:
        return None
    errors = [log(ratio) for ratio in ratios]
    weight = count / (count + _PRIOR_CASES)
    bias = weight * median(errors)
    rest = sorted(error - bias for error in errors)
    above = min(ceil(_COVERAGE * (count + 1)), count)
    return Correction(quantity, gpu, tier, count, bias, rest[count - above], rest[above - 1], weight)
