"""What is known about a `tf.data` pipeline: the script's lines that made it, and its settings."""

from __future__ import annotations

import functools
from typing import Any

from gpuproof.runtime.steps.location import Place, script_place
from gpuproof.runtime.steps.recorder import caller

_PLACE = "_gpuproof_place"


def describe_pipeline(dataset: Any) -> tuple[Place | None, str, dict[str, bool]]:
    """The line, the name and the settings of a `tf.data` pipeline: the line of its slowest kind of step, if that is known."""
    names: list[str] = []
    places: dict[str, Place] = {}
    while dataset is not None and len(names) < 100:
        name = type(dataset).__name__.strip("_")
        names.append(name)
        place = getattr(dataset, _PLACE, None)
        if place is not None:
            places.setdefault(name, place)
        dataset = _first_input(dataset)
    # Names are the same from TensorFlow 2.4 on, with and without an underscore.
    slow = next(
        (
            name
            for kind in ("MapDataset", "ParallelMapDataset", "GeneratorDataset", "FlatMapDataset")
            for name in names
            if name == kind and name in places
        ),
        next((name for name in names if name in places), None),
    )
    settings = {"prefetch": any("Prefetch" in name for name in names)}
    if "MapDataset" in names or "ParallelMapDataset" in names:
        settings["parallel_calls"] = "MapDataset" not in names
    return (places[slow] if slow else None), "tf.data pipeline", settings


def remember_places(dataset: Any) -> None:
    """Remember the script's line that made each dataset."""
    original = dataset.__init__

    @functools.wraps(original)
    def create(instance: Any, *arguments: Any, **options: Any) -> None:
        original(instance, *arguments, **options)
        place = script_place(caller())
        if place is not None:
            setattr(instance, _PLACE, place)

    dataset.__init__ = create


def remember_dataset(iterator: Any) -> None:
    """Let an iterator for several devices keep its dataset, as other iterators do."""
    original = getattr(iterator, "__init__", None)
    if original is None:
        return

    @functools.wraps(original)
    def create(instance: Any, dataset: Any = None, *arguments: Any, **options: Any) -> None:
        original(instance, dataset, *arguments, **options)
        if dataset is not None:
            instance._dataset = dataset

    iterator.__init__ = create


def is_for_devices(dataset: Any) -> bool:
    """Whether TensorFlow has made a dataset to pass batches of another one to a device."""
    while dataset is not None:
        if "PerDevice" in type(dataset).__name__:
            return True
        dataset = _first_input(dataset)
    return False


def _first_input(dataset: Any) -> Any:
    inputs = getattr(dataset, "_inputs", None)
    following: Any = inputs() if callable(inputs) else None
    return following[0] if following else None
