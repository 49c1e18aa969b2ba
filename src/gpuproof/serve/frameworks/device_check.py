"""Checks whether a loaded model is on the GPU, by the device of its parameters and by the growth of the GPU's memory."""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof.agent.verdict.driver import DriverProblem, driver_problem
from gpuproof.gpu.driver import read_kernel_module
from gpuproof.serve.interface import Device, DeviceReport
from gpuproof.util.humanize import format_bytes

MIB = 1024 * 1024
_MAX_DEPTH = 4
_MAX_OBJECTS = 2_000


@dataclass(frozen=True)
class ModelPart:
    """A model found in the object that `model_fn` returned.

    Args:
        on_cpu: bytes of parameters in host memory.
        on_gpu: bytes of parameters on GPUs.
    """

    name: str
    on_cpu: int
    on_gpu: int


DEFAULT = "the default model_fn"
TORCH_ADVICE = (
    " Before it returns the model, add:\n"
    '    model.to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))'
)
KERAS_ADVICE = (
    " TensorFlow places variables on a visible GPU: run `gpuproof doctor` to find out why it sees none, "
    'unless a tf.device("cpu") in the handler keeps them on the CPU.'
)


def check_device(
    model: Any, device: Device, location: str, before: int | None = None, after: int | None = None
) -> DeviceReport:
    """Check on which device a loaded model's parameters are, and what to do if it is the wrong one.

    Args:
        model: the object that `model_fn` returned.
        location: what loaded it: `describe_location` of the handler's `model_fn`, or `DEFAULT`.
        before: bytes used on the GPU before the model was loaded.
        after: bytes used on the GPU after the model was loaded.
    """
    advice = TORCH_ADVICE
    if is_tensorflow(model):
        advice = KERAS_ADVICE
    elif reason := why_torch_has_no_gpu(sys.modules.get("torch")):
        advice = f"\n{reason}" if location == DEFAULT else f"{TORCH_ADVICE}\n{reason}"
    return evaluate_device(find_model_parts(model), device, location, before, after, advice)


def evaluate_device(
    parts: list[ModelPart],
    device: Device,
    location: str,
    before: int | None,
    after: int | None,
    advice: str = TORCH_ADVICE,
) -> DeviceReport:
    """Evaluate on which device a model's parameters are.

    Args:
        location: the handler's `model_fn`, with file and line, or what else loaded the model.
        before: bytes used on the GPU before the model was loaded.
        after: bytes used on the GPU after the model was loaded.
        advice: what to do if the model is on the CPU, appended to the message.
    """
    grown = None if before is None or after is None else after - before
    if device.kind == "cpu":
        return DeviceReport(True, "", grown)
    on_cpu, on_gpu = sum(part.on_cpu for part in parts), sum(part.on_gpu for part in parts)
    if on_cpu and not on_gpu:
        names = ", ".join(sorted({part.name for part in parts if part.on_cpu}))
        return DeviceReport(
            False,
            f"The model is on the CPU although there is a GPU ({device.name}): {location} left {names} on the CPU "
            f"({format_bytes(on_cpu)} of parameters).{advice}",
            grown,
        )
    if on_cpu:
        return DeviceReport(
            True,
            f"{format_bytes(on_cpu)} of the model's parameters are on the CPU, {format_bytes(on_gpu)} on the GPU ({location}).",
            grown,
        )
    if not parts and grown is not None and grown < MIB:
        return DeviceReport(
            True,
            f"{location} returned no model with parameters, and the GPU's memory did not grow: the model may compute on the "
            "CPU. GPU use is checked again during the first requests.",
            grown,
        )
    return DeviceReport(True, "", grown)


def why_torch_has_no_gpu(torch: Any) -> str:
    """Why PyTorch cannot use a GPU at all; empty if it can, or was not imported."""
    if torch is None or torch.cuda.is_available():
        return ""
    if torch.version.cuda is None and torch.version.hip is None:
        return f"PyTorch {torch.__version__} is a CPU-only build: install a CUDA build to use the GPU."
    if (problem := _old_driver(torch)) is not None:
        return f"{problem.reason} {problem.remedy}"
    return f"PyTorch {torch.__version__} sees no GPU (torch.cuda.is_available()): run `gpuproof doctor` to find out why."


def _old_driver(torch: Any) -> DriverProblem | None:
    """The problem if the driver is too old for PyTorch's CUDA; `None` if it is not, or if that is unknown."""
    if torch.version.cuda is None:
        return None
    driver, _ = read_kernel_module()
    return driver_problem({"torch": torch.version.cuda}, _driver_cuda(), driver, {"torch": torch.__version__})


def _driver_cuda() -> tuple[int, int] | None:
    """The newest CUDA of the driver library that this process loads; `None` without one."""
    number = ctypes.c_int(0)
    try:
        code = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return None
    return (number.value // 1000, number.value % 1000 // 10) if code == 0 and number.value else None


def find_model_parts(model: Any) -> list[ModelPart]:
    """Find models with parameters in an object: the object itself, or inside dicts, tuples and attributes."""
    found: list[ModelPart] = []
    for item in _models_in(model):
        tensors = list(_tensors(item))
        sizes = [(_bytes(tensor), _is_on_cpu(tensor)) for tensor in tensors]
        if sizes:
            found.append(
                ModelPart(
                    type(item).__name__
                    if type(item).__name__ != "RecursiveScriptModule"
                    else "the TorchScript program",
                    sum(size for size, on_cpu in sizes if on_cpu),
                    sum(size for size, on_cpu in sizes if not on_cpu),
                )
            )
    return found


def is_tensorflow(model: Any) -> bool:
    """Whether an object contains a model of TensorFlow or Keras rather than PyTorch."""
    return any(not _is_torch(item) for item in _models_in(model))


def memory_used(device: Device) -> int | None:
    """Bytes used on a GPU by all processes, read from NVML; `None` if it is unavailable."""
    if device.kind == "cpu":
        return None
    from gpuproof.gpu.nvml import Nvml, NvmlUnavailable

    try:
        with Nvml.open() as nvml:
            return nvml.read(device.nvml_index if device.nvml_index is not None else device.index).memory_used
    except NvmlUnavailable:
        return None


def describe_location(function: Any) -> str:
    """Name and location of a function for messages: `model_fn (code/inference.py, line 12)`."""
    name = getattr(function, "__name__", "model_fn")
    try:
        file = inspect.getsourcefile(function) or ""
        line = inspect.getsourcelines(function)[1]
    except (OSError, TypeError):
        return name
    return f"{name} ({file}, line {line})"


def _models_in(item: Any) -> Iterator[Any]:
    seen: set[int] = set()
    todo: list[tuple[Any, int]] = [(item, 0)]
    while todo and len(seen) < _MAX_OBJECTS:
        value, depth = todo.pop()
        if id(value) in seen or value is None or isinstance(value, (str, bytes, int, float, type)):
            continue
        seen.add(id(value))
        if _is_torch(value) or _is_tensorflow(value):
            yield value
        elif depth < _MAX_DEPTH:
            todo += [(item, depth + 1) for item in _inside(value)]


def _inside(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if callable(value) and hasattr(value, "__closure__") and value.__closure__:
        return [cell.cell_contents for cell in value.__closure__ if _is_filled(cell)]
    if type(value).__module__.partition(".")[0] in ("numpy", "builtins"):
        return []
    try:
        return list(vars(value).values())
    except TypeError:
        return []


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    module = getattr(getattr(torch, "nn", None), "Module", None)
    return module is not None and isinstance(value, module)


def _is_tensorflow(value: Any) -> bool:
    names = {cls.__name__ for cls in type(value).__mro__}
    if "Trackable" in names or "AutoTrackable" in names:
        return hasattr(value, "variables")
    packages = {cls.__module__.partition(".")[0] for cls in type(value).__mro__}
    return bool(packages & {"keras", "tf_keras"}) and hasattr(value, "weights")


def _tensors(model: Any) -> Iterator[Any]:
    if _is_torch(model):
        yield from model.parameters()
        yield from model.buffers()
        return
    variables: Any = getattr(model, "variables", None) or getattr(model, "weights", None) or ()
    for variable in variables:
        yield (
            getattr(variable, "value", variable)
            if not callable(getattr(variable, "value", None))
            else variable
        )


def _bytes(tensor: Any) -> int:
    if hasattr(tensor, "element_size"):
        return int(tensor.numel()) * int(tensor.element_size())
    size = getattr(tensor.dtype, "size", 4)
    count = 1
    for length in tensor.shape:
        count *= int(length)
    return count * int(size)


def _is_on_cpu(tensor: Any) -> bool:
    device = tensor.device
    kind = getattr(device, "type", None)
    if kind is not None:
        return kind == "cpu"
    # TensorFlow: /job:localhost/replica:0/task:0/device:GPU:0
    return "GPU" not in str(device).upper()
