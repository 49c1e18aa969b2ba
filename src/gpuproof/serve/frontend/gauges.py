"""Gauges in `/metrics` for the present state: queues, workers, health."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuproof.serve.frontend.inference import InferenceCore
from gpuproof.serve.workers.model_state import ModelState
from gpuproof.util.prometheus_text import Labels, family


def gauges(core: InferenceCore) -> Iterator[str]:
    """The lines of all gauges, in Prometheus's text format."""
    models = [((("model", model.name),), model) for model in core.models.values()]
    yield from _gauge(
        "gpuproof_queue_depth", "Requests waiting in the queue.", models, lambda m: m.dispatcher.waiting
    )
    yield from _gauge(
        "gpuproof_in_flight", "Requests sent to workers.", models, lambda m: m.dispatcher.in_flight
    )
    yield from _gauge(
        "gpuproof_predictors", "Workers that can respond.", models, lambda m: len(m.dispatcher.workers)
    )
    yield from _gauge(
        "gpuproof_predictors_wanted", "Workers that should run.", models, lambda m: m.health.wanted
    )
    healthy = 0.0 if core.unhealthy else 1.0
    yield from family(
        "gpuproof_healthy", "gauge", "Whether /ping returns 200.", [("gpuproof_healthy", (), healthy)]
    )


def _gauge(
    name: str,
    help_text: str,
    models: list[tuple[Labels, ModelState]],
    value: Callable[[ModelState], float],
) -> Iterator[str]:
    yield from family(name, "gauge", help_text, [(name, labels, value(model)) for labels, model in models])
