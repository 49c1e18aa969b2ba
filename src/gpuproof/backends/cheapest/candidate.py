"""One way to run a job: a backend, on demand or with spot capacity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuproof.backends.cheapest.prediction import Prediction
from gpuproof.backends.offer import Offer


@dataclass(frozen=True)
class Candidate:
    """A backend and a market, with the reason for or against it.

    Args:
        location: the backend's name in a sentence, such as `on EC2`.
        spot: whether spot capacity is used.
        offer: what it costs; None if the job cannot run there, or costs nothing.
        chosen: whether the job runs there.
        reason: why it was chosen or not.
        prediction: how long the job takes there; None if that was not needed for the comparison, or is not known.
    """

    backend: str
    location: str
    spot: bool
    offer: Offer | None
    chosen: bool
    reason: str
    prediction: Prediction | None = None

    @property
    def where(self) -> str:
        """The backend and the market for the user."""
        return f"{self.location} with spot capacity" if self.spot else self.location

    @property
    def summary(self) -> str:
        """The candidate in one line, with the first sentence of its reason that is not the heading of a list."""
        lines = self.reason.splitlines() or [""]
        first = next((line for line in lines if not line.endswith(":")), lines[0])
        return f"{self._priced}: {first.partition('. ')[0].rstrip('.')}"

    @property
    def text(self) -> str:
        """The candidate with its whole reason."""
        return f"{self._priced}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """The JSON form, as in the documents of `gpuproof run --on cheapest`."""
        offer, known = self.offer, self.prediction
        price = None if offer is None else offer.usd_per_hour
        return {
            "backend": self.backend,
            "instance_type": None if offer is None else offer.instance_type,
            "spot": self.spot,
            "usd_per_hour": price,
            "predicted_seconds": None if known is None else known.seconds,
            "predicted_usd": None if known is None or price is None else known.usd(price),
            "chosen": self.chosen,
            "reason": self.reason,
        }

    @property
    def _priced(self) -> str:
        if self.offer is None:
            return f"not {self.where}"
        return f"{self.where}, {self.offer.instance_type} {self.offer.price_text}"
