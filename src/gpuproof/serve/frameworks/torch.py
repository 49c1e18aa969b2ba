"""PyTorch: TorchScript, `torch.export` programs and what `gpuproof.runtime.save` wrote; tensors on the GPU.

The defaults are those of sagemaker-pytorch-inference (default_pytorch_inference_handler.py), with more forms of models
and bodies.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import json_fast, registry
from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.frameworks import torch_files
from gpuproof.serve.frameworks.base import Framework, numbers_only, unwrapped
from gpuproof.serve.model.interface import Request


class Torch(Framework):
    """PyTorch in one predictor."""

    name = "torch"
    batches = True
    takes_numbers = json_fast.AVAILABLE

    def set_up(self) -> None:
        import numpy as np
        import torch

        self._torch: Any = torch
        self._takes = (torch.Tensor, np.ndarray)
        self._dtypes: set[Any] = set()
        # A build for the CPU cannot use the GPU that is there: served all the same, and said (`placement`).
        usable = self.device.kind == "cpu" or torch.cuda.is_available()
        self._place = self.device.name if usable else "cpu"
        self._floats: Any = None
        self._exported_shape: tuple[int | None, ...] | None = None
        if self.settings.threads:
            torch.set_num_threads(self.settings.threads)

    def load(self, folder: Path) -> Any:
        from gpuproof.runtime.models import torch_inference

        if (folder / "model.json").is_file():
            return torch_inference.load_on(self._place, folder)
        return self._load_file(choose_file(folder))

    def adopt(self, model: Any, own_predict: bool, own_input: bool = False) -> Any:
        if not isinstance(model, self._torch.nn.Module):
            if own_input:
                # What takes no tensors (a pipeline, a session) gets the arrays that the handler makes for it.
                self._takes = (self._torch.Tensor,)
            return model
        if not own_predict:
            model.to(self._place)
            # A program of torch.export has no modes: it is as it was when it was exported.
            with contextlib.suppress(NotImplementedError):
                model.eval()
            self._floats = next((p.dtype for p in model.parameters() if p.is_floating_point()), None)
        if self.settings.compile and not isinstance(model, self._torch.jit.ScriptModule):
            self.compiled = True
            mode = "reduce-overhead" if self.settings.cuda_graphs else None
            return self._torch.compile(model, mode=mode)
        return model

    def read(self, request: Request, model: Any, own_predict: bool) -> Any:
        import numpy as np

        del model
        if request.numbers is not None:
            shared = np.frombuffer(request.numbers.data, np.float32)
            return self._known(shared.reshape(request.numbers.shape).copy())
        kind = media_types.without_charset(request.content_type)
        data = registry.read_body(request.body, kind, np.float32, plain_objects=own_predict)
        if isinstance(data, np.ndarray):
            return self._known(data)
        data = unwrapped(data, own_predict, np.float32)
        if not own_predict and media_types.bare(kind) == media_types.NPZ:
            data = _by_position(data)
        if isinstance(data, (bytes, str)) and not own_predict:
            raise numbers_only(data, kind)
        return self._numbers(data, own_predict)

    def to_device(self, data: Any) -> Any:
        return _each(data, self._takes, self._move)

    def predict(self, data: Any, model: Any) -> Any:
        with self._torch.inference_mode(), self.watch():
            data = _each(data, self._takes, self._take)
            try:
                if isinstance(data, Mapping):
                    return model(**data)
                return model(*data) if isinstance(data, tuple) else model(data)
            except Exception as error:
                refusal = self._misfit(data) or _too_many(data, model)
                if refusal is None:
                    raise
                raise refusal from error

    def watch(self) -> Any:
        if not self.settings.autocast:
            return contextlib.nullcontext()
        dtype = self._torch.bfloat16 if self.settings.autocast == "bf16" else self._torch.float16
        return self._torch.autocast(self._place.partition(":")[0], dtype=dtype)

    def to_host(self, prediction: Any) -> Any:
        return _each(prediction, self._torch.Tensor, _home)

    def to_arrays(self, prediction: Any) -> Any:
        return _each(prediction, self._torch.Tensor, self._array)

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        if isinstance(arrays[0], self._torch.Tensor):
            return self._torch.cat(list(arrays))
        return super().concatenate(arrays)

    def write(self, prediction: Any, kind: str) -> bytes:
        return registry.write_body(self.to_arrays(prediction), kind)

    def release(self) -> None:
        if self._place != "cpu":
            self._torch.cuda.empty_cache()

    def _load_file(self, path: Path) -> Any:
        torch, device = self._torch, self._place
        # A single file is served by a link to it: its own name is what a person knows.
        shown = path.resolve()
        kind = torch_files.kind_of_file(path)
        try:
            if kind == torch_files.SCRIPT:
                return torch.jit.load(str(path), map_location=device)
            if kind == torch_files.EXPORTED:
                return self._module_of(torch.export.load(path))
            if kind == torch_files.COMPILED:
                return torch._inductor.aoti_load_package(str(path))  # noqa: SLF001 - PyTorch's documented name
        except Exception as error:
            raise LoadError(
                f"{shown} is {kind}, and PyTorch {torch.__version__} does not load it: {error}"
            ) from error
        if kind == torch_files.OTHER:
            raise LoadError(
                f"{shown} is {kind}: PyTorch did not write it, or it was cut off on its way.",
                remedy="Fetch it again, or save it again with torch.jit.save or torch.export.save.",
            )
        raise LoadError(
            f"{shown} is {kind}: only code can say which network its weights belong to, so it cannot be served alone.",
            remedy="Give a handler whose model_fn builds the network and calls load_state_dict, in code/inference.py; "
            "or save with torch.jit.script, torch.export or gpuproof.runtime.save.",
        )

    def _module_of(self, program: Any) -> Any:
        self._exported_shape = _shape_of(program)
        if self._place != "cpu":
            from torch.export.passes import move_to_device_pass

            program = move_to_device_pass(program, self._place)
        return program.module()

    def _numbers(self, data: Any, own_predict: bool, place: str = "") -> Any:
        import numpy as np

        if isinstance(data, Mapping):
            return {
                name: self._numbers(item, own_predict, f"{place}[{name[:40]!r}]")
                for name, item in data.items()
            }
        if isinstance(data, tuple):
            return tuple(self._numbers(item, own_predict) for item in data)
        if isinstance(data, np.ndarray):
            return self._known(data)
        if own_predict:
            return data
        if isinstance(data, (int, float)):
            return np.array(data, np.float32)
        raise registry.no_numbers(data, place)

    def _known(self, array: Any) -> Any:
        """An array that a tensor can be made of. It stays one for now: numpy joins a batch three times as fast."""
        if array.dtype in self._dtypes:
            return array
        # An NPY file may come from a machine that counts its bytes the other way.
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        try:
            self._torch.from_numpy(native[:0].copy() if native.ndim else native)
        except TypeError:
            raise RequestError(
                422, f"The model refuses the data: PyTorch has no tensors of type {array.dtype}."
            ) from None
        self._dtypes.add(native.dtype)
        return native

    def _misfit(self, data: Any) -> RequestError | None:
        """422 where the data has another shape than a program was exported for: its own guards say so at random."""
        expected, given = self._exported_shape, getattr(data, "shape", None)
        if expected is None or given is None:
            return None
        if len(expected) == len(given) and all(e is None or e == g for e, g in zip(expected, given)):
            return None
        said = ", ".join("any" if size is None else str(size) for size in expected)
        return RequestError(
            422, f"The model refuses the data: expected shape ({said}), given {tuple(given)}."
        )

    def _tensor(self, data: Any) -> Any:
        return data if isinstance(data, self._torch.Tensor) else self._torch.from_numpy(data)

    def _move(self, data: Any) -> Any:
        return self._tensor(data).to(self._place)

    def _take(self, data: Any) -> Any:
        """On the device, and floats as the model's weights are."""
        tensor = self._tensor(data)
        floats = self._floats if tensor.is_floating_point() else None
        return tensor.to(device=self._place, dtype=floats)

    def _array(self, tensor: Any) -> Any:
        tensor = _home(tensor)
        # numpy has no bfloat16; and its float16 is not what JSON's writers know.
        return (
            tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor
        ).numpy()


def choose_file(folder: Path) -> Path:
    """The file of a folder that is the model: `model.pt2`, `model.pt`, `model.pth`, or the only one.

    Raises:
        LoadError: there is none, or several and none is called `model`.
    """
    files = torch_files.model_files(folder)
    programs = [path for path in files if torch_files.kind_of_file(path) in _PROGRAMS]
    candidates = programs or files
    named = [path for path in candidates if path.stem == "model"]
    if named or len(candidates) == 1:
        return (named or candidates)[0]
    if not candidates:
        raise LoadError(f"{folder} holds no .pt, .pth or .pt2 file.")
    raise LoadError(
        f"{folder} holds several models: {', '.join(path.name for path in candidates)}.",
        remedy="Call the one to serve model.pt, or write a model_fn.",
    )


_PROGRAMS = (torch_files.SCRIPT, torch_files.EXPORTED, torch_files.COMPILED)


def _shape_of(program: Any) -> tuple[int | None, ...] | None:
    """The shape of an exported program's only input, `None` for a size that may differ; `None` where it has several."""
    names = program.graph_signature.user_inputs
    values = [node.meta.get("val") for node in program.graph.nodes if node.name in names]
    if len(values) != 1 or not hasattr(values[0], "shape"):
        return None
    return tuple(size if isinstance(size, int) else None for size in values[0].shape)


def _too_many(data: Any, model: Any) -> RequestError | None:
    """422 for more or fewer arrays than `forward` takes by their places: Python's error is the same within a model."""
    forward = getattr(model, "forward", None)
    if not isinstance(data, tuple) or not callable(forward):
        return None
    try:
        signature = inspect.signature(forward)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*data)
    except TypeError:
        taken = ", ".join(signature.parameters)
        return RequestError(422, f"The model refuses the data: it takes ({taken}), given {len(data)} arrays.")
    return None


def _by_position(data: Any) -> Any:
    """Arrays that numpy named by their places (`arr_0`, `arr_1`) as the model's inputs in this order."""
    if not isinstance(data, Mapping) or set(data) != {f"arr_{index}" for index in range(len(data))}:
        return data
    ordered = tuple(data[f"arr_{index}"] for index in range(len(data)))
    return ordered[0] if len(ordered) == 1 else ordered


def _home(tensor: Any) -> Any:
    return (tensor.detach() if tensor.requires_grad else tensor).cpu()


def _each(value: Any, kind: type | tuple[type, ...], change: Any) -> Any:
    """A value with each array in it changed, through mappings, lists and tuples."""
    if isinstance(value, kind):
        return change(value)
    if type(value).__module__ == "numpy":
        # To ask an array whether it is a mapping takes long.
        return value
    if isinstance(value, Mapping):
        return {name: _each(item, kind, change) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        changed = [_each(item, kind, change) for item in value]
        return tuple(changed) if isinstance(value, tuple) else changed
    return value
