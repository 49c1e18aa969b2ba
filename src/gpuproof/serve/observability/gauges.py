"""What `/metrics` shows of the present moment: queues, predictors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuproof.serve.frontend.inference import InferenceCore, Served
from gpuproof.serve.observability.metrics import Labels, family


def gauges(core: InferenceCore) -> Iterator[str]:
    """As Prometheus reads it."""
    models = [((("model", model.name),), model) for model in core.models.values()]
    yield from _gauge(
        "gpuproof_queue_depth", "Requests that wait in the front.", models, lambda m: m.pool.waiting
    )
    yield from _gauge(
        "gpuproof_in_flight", "Requests that are with predictors.", models, lambda m: m.pool.in_flight
    )
    yield from _gauge(
        "gpuproof_predictors", "Predictors that can answer.", models, lambda m: len(m.pool.workers)
    )
    yield from _gauge(
        "gpuproof_predictors_wanted", "Predictors that there should be.", models, lambda m: m.health.wanted
    )
    healthy = 0.0 if core.unhealthy else 1.0
    yield from family(
        "gpuproof_healthy", "gauge", "Whether /ping says 200.", [("gpuproof_healthy", (), healthy)]
    )


def _gauge(
    name: str, help_text: str, models: list[tuple[Labels, Served]], value: Callable[[Served], float]
) -> Iterator[str]:
    yield from family(name, "gauge", help_text, [(name, labels, value(model)) for labels, model in models])
