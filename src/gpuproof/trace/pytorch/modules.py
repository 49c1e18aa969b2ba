"""Changes to `torch.nn`: parameters that take no memory, moving a model, wrappers for several GPUs."""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from contextlib import nullcontext
from types import FunctionType
from typing import Any

import torch
import torch.utils.checkpoint
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils.weak import WeakIdKeyDictionary

from gpuproof.trace.pytorch.fake_gpu import FakeGpu
from gpuproof.trace.pytorch.recorder import Recorder

_BUCKET = 25 << 20
"""Bytes in a gradient bucket of DDP: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html"""


def make_parameters_fake(fake: FakeTensorMode) -> None:
    """Let parameters have a shape and no memory from their creation: a model of any size is built at once."""
    parameter = torch.nn.Parameter
    original = parameter.__new__

    def new(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        if cls is parameter and type(data) in (torch.Tensor, parameter):
            with torch.no_grad(), fake:
                data = torch.empty_strided(data.size(), data.stride(), dtype=data.dtype)
        return original(cls, data, requires_grad)

    parameter.__new__ = new  # type: ignore[method-assign,assignment]


def move_parameters_in_place(gpu: FakeGpu, recorder: Recorder) -> None:
    """Let `Module.to`, `cuda`, `half` and so on replace fake parameters, whose data cannot be swapped."""
    replaced: Any = WeakIdKeyDictionary()  # an old parameter is freed as soon as its module has the new one

    def apply(self: Any, function: Any, recurse: bool = True) -> Any:
        if recurse:
            for child in self.children():
                child._apply(function)
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            known = replaced.get(parameter)
            if known is not None:
                self._parameters[name] = known
                continue
            with torch.no_grad():
                moved = function(parameter)
            if moved is parameter:
                recorder_classify(recorder, parameter, "parameter")
                continue
            on_gpu = gpu.is_on_gpu(moved)
            new = moved if isinstance(moved, torch.nn.Parameter) else torch.nn.Parameter(moved, False)
            new.requires_grad_(parameter.requires_grad and new.is_floating_point())
            if on_gpu:
                gpu.to_gpu(new)
            # Parameters that two modules share stay shared.
            replaced[parameter] = new
            self._parameters[name] = new
            recorder_classify(recorder, new, "parameter")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = function(buffer)
                recorder_classify(recorder, self._buffers[name], "buffer")
        return self

    original_to: Any = torch.nn.Module.to

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        # PyTorch would look for the GPU of a number, such as a rank, and for the physical device of a tensor.
        if args and isinstance(args[0], torch.Tensor):
            args = (args[0].device, args[0].dtype, *args[1:])
        args = tuple(_device_of(argument) for argument in args)
        if "device" in kwargs:
            kwargs["device"] = _device_of(kwargs["device"])
        return original_to(self, *args, **kwargs)

    torch.nn.Module._apply = apply  # type: ignore[method-assign,assignment]
    torch.nn.Module.to = to  # type: ignore[method-assign,assignment]


def _device_of(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return torch.device("cuda", value) if is_number else value


def open_attention_layers() -> None:
    """Let the functions within `nn.MultiheadAttention` be seen, which PyTorch hides from a torch function mode.

    Dropout and attention would run as on the host, whose kernels keep the weights of attention in memory.
    """
    functional = torch.nn.functional
    original: Any = functional.multi_head_attention_forward
    names = {**original.__globals__, "has_torch_function": lambda _: False}
    opened = FunctionType(
        original.__code__, names, original.__name__, original.__defaults__, original.__closure__
    )
    opened.__kwdefaults__ = original.__kwdefaults__
    functional.multi_head_attention_forward = opened  # type: ignore[assignment]


def save_attention_of_gpus() -> None:
    """Let selective checkpointing save the host's attention where it is told to save that of a GPU."""
    checkpoint: Any = torch.utils.checkpoint
    original, aten = checkpoint.create_selective_checkpoint_contexts, torch.ops.aten

    def create(policy: Any, *args: Any, **kwargs: Any) -> Any:
        def decide(context: Any, operator: Any, *inputs: Any, **options: Any) -> Any:
            if operator is aten._scaled_dot_product_flash_attention_for_cpu.default:
                in_half = inputs[0].element_size() == 2
                flash, efficient = (
                    aten._scaled_dot_product_flash_attention.default,
                    aten._scaled_dot_product_efficient_attention.default,
                )
                operator = flash if in_half else efficient
            if callable(policy):
                return policy(context, operator, *inputs, **options)
            return operator in policy

        original(policy, *args, **kwargs)  # raises an error for what is no operator
        return original(decide, *args, **kwargs)

    checkpoint.create_selective_checkpoint_contexts = create


def use_no_grad_for_inference() -> None:
    """Let `torch.inference_mode` only turn gradients off: in it, PyTorch would not split operators such as `linear`."""
    original: Any = torch.inference_mode

    class InferenceMode(original):
        def __init__(self, mode: bool = True) -> None:
            super().__init__(mode)
            self._before: list[bool] = []

        def __enter__(self) -> None:
            if not self.mode:  # PyTorch itself does this within an operator
                super().__enter__()
                return
            self._before.append(torch.is_grad_enabled())
            torch.set_grad_enabled(False)

        def __exit__(self, *error: Any) -> None:
            if self.mode:
                torch.set_grad_enabled(self._before.pop())
            else:
                super().__exit__(*error)

    torch.inference_mode = InferenceMode  # type: ignore[misc,assignment]
    torch.autograd.inference_mode = torch.autograd.grad_mode.inference_mode = InferenceMode  # type: ignore[misc,assignment,attr-defined]


def recorder_classify(recorder: Recorder, tensor: Any, category: str) -> None:
    """Say what the memory of a tensor is for, if it is on the GPU."""
    if isinstance(tensor, FakeTensor):
        recorder.classify(tensor, category)


class SingleGpu(torch.nn.Module):
    """Takes the place of DataParallel, DDP and FSDP: the share of one GPU."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped module."""
        return self.module(*args, **kwargs)

    def no_sync(self) -> Any:
        """A context in which DDP would not reduce gradients."""
        return nullcontext()

    def __getattr__(self, name: str) -> Any:
        """FSDP passes attributes on."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


def gradient_buckets(module: torch.nn.Module, gpu: FakeGpu) -> list[Any]:
    """Allocate the buckets into which DDP copies gradients; they live as long as the result."""
    buckets: list[Any] = []
    for dtype, size in _trainable_sizes(module).items():
        left = size
        while left > 0:
            count = min(left, _BUCKET // dtype.itemsize)
            with gpu:
                buckets.append(torch.empty(count, dtype=dtype, device="cuda"))
            left -= count
    return buckets


def _trainable_sizes(module: torch.nn.Module) -> dict[Any, int]:
    sizes: dict[Any, int] = {}
    for parameter in module.parameters():
        if parameter.requires_grad:
            sizes[parameter.dtype] = sizes.get(parameter.dtype, 0) + parameter.numel()
    return sizes
