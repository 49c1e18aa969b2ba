"""Whether a loaded model is where it should be: its parameters' device read back, and the GPU's memory watched."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof.serve.model.interface import Device, ModelPlacement
from gpuproof.util.humanize import format_bytes

MIB = 1024 * 1024
_DEEPEST = 4
_MOST_OBJECTS = 2_000


@dataclass(frozen=True)
class Part:
    """A model that was found in what `model_fn` gave.

    Args:
        name: its class.
        on_cpu: bytes of parameters in the host's memory.
        on_gpu: bytes of parameters on GPUs.
    """

    name: str
    on_cpu: int
    on_gpu: int


DEFAULT = "the default model_fn"
_ADVICE = " Before it returns"


def look(
    model: Any, device: Device, place: str, before: int | None = None, after: int | None = None
) -> ModelPlacement:
    """Where a loaded model's parameters are, and what to do where that is wrong.

    Args:
        model: what `model_fn` gave.
        device: where the predictor should compute.
        place: who loaded it: `place_of` the handler's `model_fn`, or `DEFAULT`.
        before: bytes used on the GPU before the model was loaded.
        after: the same after.
    """
    found = judge(parts_of(model), device, place, before, after)
    if found.ok:
        return found
    if is_of_keras(model):
        return judge_keras(found)
    blind = why_blind(sys.modules.get("torch"))
    if not blind:
        return found
    said = found.message.partition(_ADVICE)[0] if place == DEFAULT else found.message
    return ModelPlacement(False, f"{said}\n{blind}", found.gpu_memory)


def judge(
    parts: list[Part], device: Device, place: str, memory_before: int | None, memory_after: int | None
) -> ModelPlacement:
    """Decides about a model's placement.

    Args:
        parts: the models with parameters that were found.
        device: where the predictor should compute.
        place: the handler's `model_fn`, as file and line, or what else loaded the model.
        memory_before: bytes used on the GPU before the model was loaded.
        memory_after: the same after.
    """
    grown = None if memory_before is None or memory_after is None else memory_after - memory_before
    if device.kind == "cpu":
        return ModelPlacement(True, "", grown)
    on_cpu, on_gpu = sum(part.on_cpu for part in parts), sum(part.on_gpu for part in parts)
    if on_cpu and not on_gpu:
        names = ", ".join(sorted({part.name for part in parts if part.on_cpu}))
        return ModelPlacement(
            False,
            f"The model is on the CPU, though there is a GPU ({device.name}): {place} left {names} there "
            f"({format_bytes(on_cpu)} of parameters). Before it returns the model, add:\n"
            '    model.to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))',
            grown,
        )
    if on_cpu:
        return ModelPlacement(
            True,
            f"{format_bytes(on_cpu)} of the model's parameters are on the CPU, {format_bytes(on_gpu)} on the GPU ({place}).",
            grown,
        )
    if not parts and grown is not None and grown < MIB:
        return ModelPlacement(
            True,
            f"No model with parameters was found in what {place} gave, and the GPU's memory has not grown: it may "
            "compute on the CPU. The first requests will tell.",
            grown,
        )
    return ModelPlacement(True, "", grown)


def judge_keras(placement: ModelPlacement) -> ModelPlacement:
    """The same, with the advice that is right for TensorFlow, which moves models by itself."""
    if placement.ok:
        return placement
    said = placement.message.partition(_ADVICE)[0]
    return ModelPlacement(
        False,
        f"{said} TensorFlow puts variables on a GPU that it sees: `gpuproof doctor` says why it sees none; or a "
        'tf.device("cpu") in the handler holds them.',
        placement.gpu_memory,
    )


def why_blind(torch: Any) -> str:
    """Why PyTorch itself uses no GPU, whatever a handler does; empty where it does, or was not imported."""
    if torch is None or torch.cuda.is_available():
        return ""
    if torch.version.cuda is None and torch.version.hip is None:
        return (
            f"PyTorch {torch.__version__} is a build for the CPU alone: it moves nothing to a GPU until one for CUDA is "
            "installed."
        )
    return f"PyTorch {torch.__version__} sees no GPU (torch.cuda.is_available()): `gpuproof doctor` says why."


def parts_of(model: Any) -> list[Part]:
    """The models with parameters in what a `model_fn` gave: itself, or inside dicts, tuples and objects."""
    found: list[Part] = []
    for thing in _models_in(model):
        tensors = list(_tensors(thing))
        sizes = [(_bytes(tensor), _is_on_cpu(tensor)) for tensor in tensors]
        if sizes:
            found.append(
                Part(
                    type(thing).__name__
                    if type(thing).__name__ != "RecursiveScriptModule"
                    else "the TorchScript program",
                    sum(size for size, on_cpu in sizes if on_cpu),
                    sum(size for size, on_cpu in sizes if not on_cpu),
                )
            )
    return found


def is_of_keras(model: Any) -> bool:
    """Whether what was found is TensorFlow's rather than PyTorch's."""
    return any(not _is_torch(thing) for thing in _models_in(model))


def memory_used(device: Device) -> int | None:
    """Bytes used on a GPU by all processes, as NVML says; `None` where it cannot tell."""
    if device.kind == "cpu":
        return None
    from gpuproof.gpu.nvml import Nvml, NvmlUnavailable

    try:
        with Nvml.open() as nvml:
            return nvml.read(device.nvml_index if device.nvml_index is not None else device.index).memory_used
    except NvmlUnavailable:
        return None


def place_of(function: Any) -> str:
    """`code/inference.py, line 12 (model_fn)` for the message."""
    name = getattr(function, "__name__", "model_fn")
    try:
        file = inspect.getsourcefile(function) or ""
        line = inspect.getsourcelines(function)[1]
    except (OSError, TypeError):
        return name
    return f"{name} ({file}, line {line})"


def _models_in(thing: Any) -> Iterator[Any]:
    seen: set[int] = set()
    todo: list[tuple[Any, int]] = [(thing, 0)]
    while todo and len(seen) < _MOST_OBJECTS:
        value, depth = todo.pop()
        if id(value) in seen or value is None or isinstance(value, (str, bytes, int, float, type)):
            continue
        seen.add(id(value))
        if _is_torch(value) or _is_tensorflow(value):
            yield value
        elif depth < _DEEPEST:
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
