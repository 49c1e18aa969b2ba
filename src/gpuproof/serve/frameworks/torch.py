"""PyTorch: TorchScript, `torch.export` programs and models written by `gpuproof.runtime.save`; tensors on the GPU.

The defaults follow sagemaker-pytorch-inference (default_pytorch_inference_handler.py), and support more formats of
models and bodies.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import arrays as codec_arrays
from gpuproof.serve.codecs import json_fast, registry
from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.frameworks import torch_files
from gpuproof.serve.frameworks.base import Framework, requires_arrays, unwrap
from gpuproof.serve.interface import Request


class Torch(Framework):
    """PyTorch in a worker."""

    name = "torch"
    batches = True
    accepts_decoded = json_fast.AVAILABLE

    def set_up(self) -> None:
        import numpy as np
        import torch

        self._torch: Any = torch
        self._array_types = (torch.Tensor, np.ndarray)
        self._dtypes: set[Any] = set()
        # A CPU-only build cannot use the GPU: the model is served anyway, and the device check reports it.
        usable = self.device.kind == "cpu" or torch.cuda.is_available()
        self._device_name = self.device.name if usable else "cpu"
        self._floats: Any = None
        self._exported_shape: tuple[int | None, ...] | None = None
        if self.settings.threads:
            torch.set_num_threads(self.settings.threads)

    def load(self, folder: Path) -> Any:
        from gpuproof.runtime.models import torch_inference

        if (folder / "model.json").is_file():
            return torch_inference.load_on(self._device_name, folder)
        return self._load_file(choose_file(folder))

    def prepare(self, model: Any, own_predict: bool, own_input: bool = False) -> Any:
        if not isinstance(model, self._torch.nn.Module):
            if own_input:
                # A pipeline or session does not take tensors: pass the arrays of the handler's `input_fn` unchanged.
                self._array_types = (self._torch.Tensor,)
            return model
        if not own_predict:
            model.to(self._device_name)
            # A torch.export program has no modes.
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
        if request.decoded is not None:
            shared = np.frombuffer(request.decoded.data, np.float32)
            return self._to_native(shared.reshape(request.decoded.shape).copy())
        content_type = media_types.without_charset(request.content_type)
        data = registry.read_body(request.body, content_type, np.float32, plain_objects=own_predict)
        if isinstance(data, np.ndarray):
            return self._to_native(data)
        data = unwrap(data, own_predict, np.float32)
        if not own_predict and media_types.without_parameters(content_type) in registry.NAMED_ARRAY_TYPES:
            data = _positional(data)
        if isinstance(data, (bytes, str)) and not own_predict:
            raise requires_arrays(data, content_type)
        return self._to_arrays(data, own_predict)

    def to_device(self, data: Any) -> Any:
        return _map_arrays(data, self._array_types, self._to_device)

    def predict(self, data: Any, model: Any) -> Any:
        with self._torch.inference_mode(), self.precision():
            data = _map_arrays(data, self._array_types, self._to_model_input)
            try:
                if isinstance(data, Mapping):
                    return model(**data)
                return model(*data) if isinstance(data, tuple) else model(data)
            except Exception as error:
                refusal = self._shape_error(data) or _argument_error(data, model)
                if refusal is None:
                    raise
                raise refusal from error

    def precision(self) -> Any:
        if not self.settings.autocast:
            return contextlib.nullcontext()
        dtype = self._torch.bfloat16 if self.settings.autocast == "bf16" else self._torch.float16
        return self._torch.autocast(self._device_name.partition(":")[0], dtype=dtype)

    def to_host(self, prediction: Any) -> Any:
        return _map_arrays(prediction, self._torch.Tensor, _to_cpu)

    def to_arrays(self, prediction: Any) -> Any:
        return _map_arrays(prediction, self._torch.Tensor, self._to_numpy)

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        if isinstance(arrays[0], self._torch.Tensor):
            return self._torch.cat(list(arrays))
        return super().concatenate(arrays)

    def write(self, prediction: Any, media_type: str) -> bytes:
        return registry.write_body(self.to_arrays(prediction), media_type)

    def release(self) -> None:
        if self._device_name != "cpu":
            self._torch.cuda.empty_cache()

    def _load_file(self, path: Path) -> Any:
        torch, device = self._torch, self._device_name
        # A single file is served through a link: show the name that the user knows.
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
                f"{shown} is {kind}, but PyTorch {torch.__version__} cannot load it: {error}"
            ) from error
        if kind == torch_files.OTHER:
            raise LoadError(
                f"{shown} is {kind}: it was not written by PyTorch, or it is truncated.",
                remedy="Download it again, or save it again with torch.jit.save or torch.export.save.",
            )
        raise LoadError(
            f"{shown} is {kind}: it does not contain the network of its weights, so it cannot be served without code.",
            remedy="Add code/inference.py with a model_fn that builds the network and calls load_state_dict, "
            "or save the model with torch.jit.script, torch.export or gpuproof.runtime.save.",
        )

    def _module_of(self, program: Any) -> Any:
        self._exported_shape = _shape_of(program)
        if self._device_name != "cpu":
            from torch.export.passes import move_to_device_pass

            program = move_to_device_pass(program, self._device_name)
        return program.module()

    def _to_arrays(self, data: Any, own_predict: bool, place: str = "") -> Any:
        import numpy as np

        if isinstance(data, Mapping):
            return {
                name: self._to_arrays(item, own_predict, f"{place}[{name[:40]!r}]")
                for name, item in data.items()
            }
        if isinstance(data, tuple):
            return tuple(self._to_arrays(item, own_predict) for item in data)
        if isinstance(data, np.ndarray):
            return self._to_native(data)
        if own_predict:
            return data
        if isinstance(data, (int, float)):
            return np.array(data, np.float32)
        raise codec_arrays.not_numbers(data, place)

    def _to_native(self, array: Any) -> Any:
        """An array that PyTorch can convert. Converted later, because numpy concatenates batches three times as fast."""
        if array.dtype in self._dtypes:
            return array
        # An NPY file may have the other byte order.
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        try:
            self._torch.from_numpy(native[:0].copy() if native.ndim else native)
        except TypeError:
            raise RequestError(
                422, f"The model rejects the data: PyTorch has no tensors of type {array.dtype}."
            ) from None
        self._dtypes.add(native.dtype)
        return native

    def _shape_error(self, data: Any) -> RequestError | None:
        """422 for another shape than the program was exported for; its own error messages do not name the shape reliably."""
        expected, given = self._exported_shape, getattr(data, "shape", None)
        if expected is None or given is None:
            return None
        if len(expected) == len(given) and all(e is None or e == g for e, g in zip(expected, given)):
            return None
        sizes = ", ".join("any" if size is None else str(size) for size in expected)
        return RequestError(
            422, f"The model rejects the data: expected shape ({sizes}), given {tuple(given)}."
        )

    def _to_tensor(self, data: Any) -> Any:
        return data if isinstance(data, self._torch.Tensor) else self._torch.from_numpy(data)

    def _to_device(self, data: Any) -> Any:
        return self._to_tensor(data).to(self._device_name)

    def _to_model_input(self, data: Any) -> Any:
        """Move data to the device; floats are converted to the dtype of the model's weights."""
        tensor = self._to_tensor(data)
        floats = self._floats if tensor.is_floating_point() else None
        return tensor.to(device=self._device_name, dtype=floats)

    def _to_numpy(self, tensor: Any) -> Any:
        tensor = _to_cpu(tensor)
        # numpy has no bfloat16, and JSON writers do not support float16.
        return (
            tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor
        ).numpy()


def choose_file(folder: Path) -> Path:
    """The model file of a folder: `model.pt2`, `model.pt`, `model.pth`, or the only one.

    Raises:
        LoadError: there is none, or there are several and none is named `model`.
    """
    files = torch_files.model_files(folder)
    programs = [path for path in files if torch_files.kind_of_file(path) in _PROGRAMS]
    candidates = programs or files
    named = [path for path in candidates if path.stem == "model"]
    if named or len(candidates) == 1:
        return (named or candidates)[0]
    if not candidates:
        raise LoadError(f"{folder} contains no .pt, .pth or .pt2 file.")
    raise LoadError(
        f"{folder} contains several models: {', '.join(path.name for path in candidates)}.",
        remedy="Rename the one to serve to model.pt, or write a model_fn.",
    )


_PROGRAMS = (torch_files.SCRIPT, torch_files.EXPORTED, torch_files.COMPILED)


def _shape_of(program: Any) -> tuple[int | None, ...] | None:
    """Shape of an exported program's single input, `None` for dynamic sizes; `None` if it has several inputs."""
    names = program.graph_signature.user_inputs
    values = [node.meta.get("val") for node in program.graph.nodes if node.name in names]
    if len(values) != 1 or not hasattr(values[0], "shape"):
        return None
    return tuple(size if isinstance(size, int) else None for size in values[0].shape)


def _argument_error(data: Any, model: Any) -> RequestError | None:
    """422 for a wrong number of positional arrays. Python's TypeError does not show whether it comes from inside the model."""
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
        parameters = ", ".join(signature.parameters)
        return RequestError(
            422, f"The model rejects the data: it takes ({parameters}), given {len(data)} arrays."
        )
    return None


def _positional(data: Any) -> Any:
    """Convert arrays with numpy's default names (`arr_0`, `arr_1`) to positional inputs."""
    if not isinstance(data, Mapping) or set(data) != {f"arr_{index}" for index in range(len(data))}:
        return data
    ordered = tuple(data[f"arr_{index}"] for index in range(len(data)))
    return ordered[0] if len(ordered) == 1 else ordered


def _to_cpu(tensor: Any) -> Any:
    return (tensor.detach() if tensor.requires_grad else tensor).cpu()


def _map_arrays(value: Any, array_type: type | tuple[type, ...], convert: Any) -> Any:
    """Convert all arrays in a value, inside mappings, lists and tuples."""
    if isinstance(value, array_type):
        return convert(value)
    if type(value).__module__ == "numpy":
        # `isinstance(array, Mapping)` is slow.
        return value
    if isinstance(value, Mapping):
        return {name: _map_arrays(item, array_type, convert) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        converted = [_map_arrays(item, array_type, convert) for item in value]
        return tuple(converted) if isinstance(value, tuple) else converted
    return value
