"""Files of weights and models: loaded ones are read on the host, and moved to the GPU where the script wants them there; saved ones have no values."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from typing import Any

import torch
import torch.export.passes
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

from gpuproof.trace.failures import CannotTrace
from gpuproof.trace.notes import Notes
from gpuproof.trace.pytorch.fake_gpu import FakeGpu, is_gpu

_HEADER = b"gpuproof trace\n"


def replace_files(gpu: FakeGpu, notes: Notes) -> SavedObjects:
    """Let files be read without a GPU, those of `torch.load` without memory for their tensors; `torch.save` writes shapes.

    Args:
        gpu: takes what is loaded onto it.
        notes: takes that a file was not saved.

    Returns:
        What writes and reads the files of the script.
    """
    saved = SavedObjects(gpu)

    def save(obj: Any, f: Any, *_: Any, **__: Any) -> None:
        notes.add("save", "torch.save")
        saved.write(obj, f)

    torch.save = save  # type: ignore[assignment]
    _replace_load(gpu, saved)
    _replace_programs()
    return saved


class SavedObjects:
    """What a script has saved: a file has the structure, its tensors stay in this process without values.

    Args:
        gpu: on which some of the tensors are.
    """

    def __init__(self, gpu: FakeGpu) -> None:
        self._gpu = gpu
        self._tensors: list[tuple[Any, bool, bool]] = []

    def write(self, value: Any, file: Any) -> None:
        """Write an object, to a path or a file; only a header if it cannot be pickled."""
        content = io.BytesIO()
        try:
            self._pickler(content).dump(value)
        except Exception:  # noqa: BLE001 - whatever the script's own classes raise
            content = io.BytesIO()
        if isinstance(file, (str, os.PathLike)):
            with open(file, "wb") as stream:  # noqa: PTH123 - the function that does not change the user's files
                stream.write(_HEADER + content.getvalue())
        else:
            file.write(_HEADER + content.getvalue())

    def has_written(self, file: Any) -> bool:
        """Whether a path or file is one of these."""
        if isinstance(file, (str, os.PathLike)):
            try:
                with open(file, "rb") as stream:  # noqa: PTH123
                    return stream.read(len(_HEADER)) == _HEADER
            except OSError:
                return False
        if not (hasattr(file, "seekable") and file.seekable()):
            return False
        start = file.tell()
        content = file.read(len(_HEADER))
        file.seek(start)
        return content == _HEADER

    def read(self, file: Any, map_location: Any) -> Any:
        """The object in a file, with its tensors where they were or where `map_location` says.

        Raises:
            CannotTrace: it could not be pickled.
        """
        if isinstance(file, (str, os.PathLike)):
            with open(file, "rb") as stream:  # noqa: PTH123
                content = stream.read()
        else:
            content = file.read()
        if content == _HEADER:
            raise CannotTrace(
                "saved-object",
                "The script loads an object that it saved before, which cannot be pickled in a trace.",
                "Save a state_dict instead.",
            )
        return self._unpickler(io.BytesIO(content[len(_HEADER) :]), map_location).load()

    def _pickler(self, stream: io.BytesIO) -> pickle.Pickler:
        objects = self
        known: dict[int, int] = {}

        class Pickler(pickle.Pickler):
            def persistent_id(self, obj: Any) -> int | None:
                if not isinstance(obj, torch.Tensor):
                    return None
                if id(obj) not in known:
                    known[id(obj)] = objects._keep(obj)
                return known[id(obj)]

        return Pickler(stream)

    def _unpickler(self, stream: io.BytesIO, map_location: Any) -> pickle.Unpickler:
        objects = self
        made: dict[int, Any] = {}

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, pid: int) -> Any:
                if pid not in made:
                    made[pid] = objects._tensor(pid, map_location)
                return made[pid]

        return Unpickler(stream)

    def _keep(self, tensor: Any) -> int:
        """Remember a tensor: one on the GPU, or a parameter, by its shape, which takes no memory."""
        has_values = not isinstance(tensor, FakeTensor)
        kept = tensor.detach().clone() if has_values else tensor.to("meta")
        kept.requires_grad_(tensor.requires_grad)
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        self._tensors.append((kept, is_parameter, self._gpu.is_on_gpu(tensor)))
        return len(self._tensors) - 1

    def _tensor(self, index: int, map_location: Any) -> Any:
        kept, is_parameter, on_gpu = self._tensors[index]
        with torch.no_grad():
            made = self._gpu.without_values(kept) if kept.is_meta else kept.detach().clone()
        if is_parameter:
            made = torch.nn.Parameter(made, kept.requires_grad)
        else:
            made.requires_grad_(kept.requires_grad)
        moves = on_gpu if map_location is None else is_gpu(map_location)
        return self._gpu.to_gpu(made) if moves else made


def _replace_load(gpu: FakeGpu, saved: SavedObjects) -> None:
    original: Callable[..., Any] = torch.load

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if saved.has_written(f):
            return saved.read(f, map_location)
        places: list[str] = []

        def keep(storage: Any, location: str) -> Any:
            places.append(location)
            return storage

        if isinstance(f, (str, os.PathLike)) and kwargs.get("mmap") is None:
            try:
                found = original(f, keep, *args, **{**kwargs, "mmap": True})
            except RuntimeError:  # files of PyTorch before 1.6
                places.clear()
                found = original(f, keep, *args, **kwargs)
        else:
            found = original(f, keep, *args, **kwargs)
        if is_gpu(map_location) or (map_location is None and any(map(is_gpu, places))):
            return tree_map_only(torch.Tensor, gpu.to_gpu, found)
        return found

    torch.load = load


def _replace_programs() -> None:
    load_program, load_script = torch.export.load, torch.jit.load

    def program(*args: Any, **kwargs: Any) -> Any:
        # Its graph is read by means of fake tensors that are no GPU's.
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            return load_program(*args, **kwargs)

    def script(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            module = load_script(f, "cpu", *args, **kwargs)
        return module.to(map_location) if is_gpu(map_location) else module

    def moved(program: Any, _: Any) -> Any:
        return program  # its module is moved when it has been made

    torch.export.load, torch.jit.load = program, script
    torch.export.passes.move_to_device_pass = moved
