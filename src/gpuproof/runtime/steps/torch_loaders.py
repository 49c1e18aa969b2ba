"""Times `torch.utils.data.DataLoader`: how long the script waits for each batch."""

from __future__ import annotations

import functools
import weakref
from time import perf_counter
from types import FrameType
from typing import Any

from gpuproof.runtime.steps.location import Place, is_script, script_place
from gpuproof.runtime.steps.recorder import caller
from gpuproof.runtime.steps.torch_loop import Loader, TorchLoop, settings_of

_LOADER = "_gpuproof_loader"
"""Attribute of loaders and their iterators."""


def install(torch: Any, loop: TorchLoop) -> None:
    """Replace the methods of `DataLoader` and its iterators."""
    loader_class: Any = torch.utils.data.DataLoader
    recorder = loop.recorder
    iterator_class: Any = torch.utils.data.dataloader._BaseDataLoaderIter
    make, iterate, fetch = loader_class.__init__, loader_class.__iter__, iterator_class.__next__
    places: dict[int, tuple[weakref.ref[Any], Place]] = {}

    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        try:
            self.__dict__[_LOADER] = Loader(_place(self.dataset, caller(), places), settings_of(self))
        except Exception as error:  # noqa: BLE001 - statistics must not end a training
            recorder.fail("DataLoader", error)

    @functools.wraps(iterate)
    def __iter__(self: Any) -> Any:
        loader = self.__dict__.get(_LOADER)
        if not isinstance(loader, Loader) or not recorder.active or not recorder.is_training_thread():
            return iterate(self)
        recorder.guard("DataLoader", loop.on_pass, loader, script_place(caller()))
        recorder.begin("input")
        try:
            iterator = iterate(self)
        finally:
            recorder.end("input")
        if hasattr(iterator, "__dict__"):
            iterator.__dict__[_LOADER] = loader
        return iterator

    @functools.wraps(fetch)
    def __next__(self: Any) -> Any:
        loader = self.__dict__.get(_LOADER)
        if not isinstance(loader, Loader) or not recorder.active or not recorder.is_training_thread():
            return fetch(self)
        recorder.guard("DataLoader", loop.on_fetch, loader)
        recorder.begin("input")
        began = perf_counter()
        last = False
        try:
            return fetch(self)
        except StopIteration:
            last = True
            raise
        finally:
            recorder.end("input")
            recorder.guard("DataLoader", loop.on_batch, loader, perf_counter() - began, last)

    loader_class.__init__, loader_class.__iter__, iterator_class.__next__ = __init__, __iter__, __next__


def _place(dataset: Any, frame: FrameType, places: dict[int, tuple[Any, Place]]) -> Place | None:
    """The line that has made a loader; of one that a library makes of a dataset, the line of its first loader."""
    known = places.get(id(dataset))
    if known is not None and known[0]() is dataset and not is_script(frame.f_code):
        return known[1]
    place = script_place(frame)
    if place is not None:
        try:
            places[id(dataset)] = weakref.ref(dataset), place
        except TypeError:
            pass  # such as a list
    return place
