"""A model that is being served: its workers, its queue and its health."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuproof.serve.workers.dispatcher import Dispatcher


@dataclass
class ModelHealth:
    """Whether a model can be served.

    Args:
        wanted: how many workers it should have.
        loaded: slots whose worker has loaded the model at least once.
        crashing: slots whose workers keep crashing, and how.
        misplaced: slots whose model is on the CPU although there is a GPU, and what to do about it.
    """

    wanted: int
    loaded: set[int] = field(default_factory=set)
    lost: list[str] = field(default_factory=list)
    crashing: dict[int, str] = field(default_factory=dict)
    misplaced: dict[int, str] = field(default_factory=dict)

    @property
    def trouble(self) -> str | None:
        """Why `/ping` returns 503 for this model; `None` if it is healthy."""
        if self.lost:
            return self.lost[0]
        if self.crashing:
            return next(iter(self.crashing.values()))
        if len(self.loaded) < self.wanted:
            return f"loading: {len(self.loaded)} of {self.wanted} workers are ready"
        return None


@dataclass
class ModelState:
    """One model that is being served.

    Args:
        name: `model`, or its name under the multi-model API.
        health: whether it can be served.
    """

    name: str
    url: str
    dispatcher: Dispatcher
    health: ModelHealth
