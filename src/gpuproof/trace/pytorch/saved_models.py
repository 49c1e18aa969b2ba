"""Files of weights and models that a script loads: they are read on the host, and moved to the GPU where the script wants them there."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.export.passes
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

from gpuproof.trace.pytorch.fake_gpu import FakeGpu, is_gpu


def load_on_host(gpu: FakeGpu) -> None:
    """Let files be read without a GPU, and those of `torch.load` without memory for their tensors."""
    _replace_load(gpu)
    _replace_programs()


def _replace_load(gpu: FakeGpu) -> None:
    original: Callable[..., Any] = torch.load

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
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
