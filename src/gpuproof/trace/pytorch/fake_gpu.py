"""Answers every function that names a device: tensors on the GPU become fake, tensors on the host stay real."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from gpuproof.trace.notes import Notes
from gpuproof.trace.pytorch.recorder import Recorder

GPU = torch.device("cuda", 0)
HOST = torch.device("cpu")

_Tensor = torch.Tensor
_FROM_DATA = (torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy)
_LIKE = {
    *(
        torch.zeros_like,
        torch.ones_like,
        torch.empty_like,
        torch.rand_like,
        torch.randn_like,
        torch.full_like,
    ),
    *(torch.randint_like, _Tensor.new_zeros, _Tensor.new_ones, _Tensor.new_empty, _Tensor.new_full),
    *(_Tensor.new_tensor, _Tensor.new_empty_strided),
}
_FACTORIES = {
    *(torch.zeros, torch.ones, torch.empty, torch.full, torch.rand, torch.randn, torch.randint, torch.arange),
    *(torch.linspace, torch.logspace, torch.eye, torch.randperm, torch.empty_strided, torch.tril_indices),
    *(torch.triu_indices, torch.hann_window, torch.hamming_window, torch.scalar_tensor, torch.normal),
}
# https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-autocast-to-float32, without those that run on the host alone
_FP32_NAMES = (
    *(
        "__pow__",
        "pow",
        "exp",
        "expm1",
        "log",
        "log10",
        "log2",
        "log1p",
        "reciprocal",
        "rsqrt",
        "softplus",
        "sum",
    ),
    *("prod", "cumsum", "cumprod", "norm", "softmax", "log_softmax", "softmin", "layer_norm", "group_norm"),
    *("cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "kl_div", "cosine_similarity"),
    *("binary_cross_entropy_with_logits", "poisson_nll_loss", "triplet_margin_loss", "hinge_embedding_loss"),
    *("margin_ranking_loss", "cosine_embedding_loss", "soft_margin_loss", "normalize", "cdist", "dist"),
)
_FP32 = {
    getattr(owner, name)
    for name in _FP32_NAMES
    for owner in (torch, _Tensor, torch.nn.functional)
    if hasattr(owner, name)
}


_SAME_DEVICE_NAMES = (
    *("linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm", "einsum", "bilinear"),
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("embedding", "batch_norm", "layer_norm", "group_norm", "instance_norm", "cat", "concat", "stack"),
    *("add", "sub", "mul", "div", "__add__", "__sub__", "__mul__", "__truediv__", "__iadd__", "__imul__"),
    *("cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "binary_cross_entropy"),
    *("binary_cross_entropy_with_logits", "kl_div", "cosine_similarity", "scaled_dot_product_attention"),
)
_SAME_DEVICE = {
    getattr(owner, name)
    for name in _SAME_DEVICE_NAMES
    for owner in (torch, _Tensor, torch.nn.functional)
    if hasattr(owner, name)
}
"""Functions that take no tensors of the host together with those of a GPU, except for single numbers."""


class FakeGpu(TorchFunctionMode):
    """Pretends that there is a GPU while it is active.

    Args:
        recorder: takes the memory of new tensors.
        fake: the mode that all tensors of the GPU belong to.
        notes: takes assumptions.
    """

    def __init__(self, recorder: Recorder, fake: FakeTensorMode, notes: Notes) -> None:
        super().__init__()
        self._recorder = recorder
        self._fake = fake
        self._notes = notes
        self.default_on_gpu = False
        """`torch.set_default_device`."""
        self.inside = 0
        """How deep the current call is in operators, which work with the physical device."""
        self.in_autocast = False
        """Whether autocast for the GPU is on."""
        functional = torch.nn.functional
        self._handlers: dict[Any, Callable[..., Any]] = {
            _Tensor.is_cuda.__get__: self.is_on_gpu,  # type: ignore[attr-defined]
            _Tensor.get_device: lambda tensor: 0 if self.is_on_gpu(tensor) else -1,
            _Tensor.cuda: lambda tensor, *_, **__: self.to_gpu(tensor),
            _Tensor.cpu: self._cpu,
            _Tensor.to: self._to,
            _Tensor.type_as: self._to,
            _Tensor.type: self._type,
            _Tensor.numpy: self._numpy,
            _Tensor.tolist: lambda tensor: _Tensor.tolist(self.to_host(tensor)),
            _Tensor.__array__: lambda tensor, *rest: _Tensor.__array__(self.to_host(tensor), *rest),
            _Tensor.pin_memory: lambda tensor, *_: tensor,
            _Tensor.is_pinned: lambda tensor, *_: False,
            _Tensor.record_stream: lambda *_: None,
            _Tensor.__repr__: self._repr,
            _Tensor.__format__: self._format,
            _Tensor.share_memory_: lambda tensor: tensor,
            _Tensor.__deepcopy__: self._deepcopy,
            functional.dropout: self._dropout,
            torch.dropout: self._dropout,
            functional.scaled_dot_product_attention: self._attention,
            functional.rms_norm: self._rms_norm,
        }

        self._answered = {*self._handlers, *_FACTORIES, *_LIKE, *_FROM_DATA} - {torch.from_numpy}

    def answer(self, function: Any, handler: Callable[..., Any]) -> None:
        """Let a handler answer a function of PyTorch if one of its arguments is on the GPU."""
        self._handlers[function] = handler
        self._answered.add(function)

    def answer_device(self) -> None:
        """Let `tensor.device` of a tensor on the GPU be the GPU, outside the operators themselves."""
        original: Any = FakeTensor.device.fget  # type: ignore[attr-defined]

        def device(tensor: Any) -> torch.device:
            if self.inside or not self._recorder.is_allocated(tensor):
                return original(tensor)
            return GPU

        FakeTensor.device = property(device)  # type: ignore[assignment,method-assign]

    def is_on_gpu(self, value: Any) -> bool:
        """Whether a value is a tensor in the GPU's memory."""
        return isinstance(value, FakeTensor) and self._recorder.is_allocated(value)

    def to_gpu(self, tensor: Any, dtype: Any = None, memory_format: Any = None) -> Any:
        """A tensor on the GPU with the shape of one on the host; one that is there already is returned.

        A fake tensor of the host, such as a parameter, moves: it stays the same object.
        """
        if isinstance(tensor, FakeTensor):
            is_new = not self._recorder.is_allocated(tensor)
            self._recorder.allocate(
                tensor, "parameter" if isinstance(tensor, torch.nn.Parameter) else "input"
            )
            if dtype is not None and tensor.dtype != dtype:
                tensor = tensor.to(dtype)
            if memory_format is not None:
                tensor = tensor.contiguous(memory_format=memory_format) if is_new else tensor
            return tensor
        with torch.no_grad(), self._fake:
            kind = dtype or tensor.dtype
            if tensor.layout is torch.strided:
                new = torch.empty_strided(tensor.size(), tensor.stride(), dtype=kind)
            else:
                new = _sparse(tensor, kind)
            if memory_format is not None:
                new = new.contiguous(memory_format=memory_format)
        if tensor.layout is not torch.strided:
            self._recorder.set_sparse(new, tensor._nnz())
        self._recorder.allocate(new, "input")
        if tensor.requires_grad and tensor.is_leaf:
            new.requires_grad_(True)
        return new

    def without_values(self, like: Any) -> Any:
        """A tensor of the host with the shape and type of another one, and without memory."""
        with torch.no_grad(), self._fake:
            return torch.empty_strided(like.size(), like.stride(), dtype=like.dtype)

    def to_host(self, tensor: Any) -> Any:
        """A tensor on the host: zeros for one on the GPU, whose values are unknown."""
        if not isinstance(tensor, FakeTensor):
            return tensor
        return torch.zeros(tuple(tensor.shape), dtype=tensor.dtype)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer a function of PyTorch."""
        if not kwargs and func not in self._answered and all(map(_is_of_host, args)):
            # Input pipelines are made of these: nothing of the GPU can be in them.
            with torch._C._DisableTorchDispatch():
                return func(*args)
        kwargs = dict(kwargs or {})
        if func in _SAME_DEVICE:
            self._note_mixed(func, args, kwargs)
        handler = self._handlers.get(func)
        if handler is not None and (
            func in _ON_HOST_TOO or any(isinstance(argument, FakeTensor) for argument in args)
        ):
            return handler(*args, **kwargs)
        if func in _FROM_DATA or func in _FACTORIES or func in _LIKE:
            return self._create(func, args, kwargs)
        device = kwargs.get("device")
        if device is not None and func not in _PASS_DEVICE:
            kwargs["device"] = HOST
            result = func(*args, **kwargs)
            if not is_gpu(device):
                return result
            return tree_map(
                lambda leaf: self.to_gpu(leaf) if isinstance(leaf, torch.Tensor) else leaf, result
            )
        if self.in_autocast and func in _FP32:
            args = tuple(self._as_float32(argument) for argument in args)
        return func(*args, **kwargs)

    def _note_mixed(self, func: Any, args: Any, kwargs: Any) -> None:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        on_gpu = [self.is_on_gpu(tensor) for tensor in tensors]
        if any(on_gpu) and any(tensor.dim() and not here for tensor, here in zip(tensors, on_gpu)):  # noqa: B905 - Python 3.9
            name = getattr(func, "__name__", str(func)).strip("_")
            self._notes.add(
                "device-mismatch",
                f"{name} got a tensor on the GPU and one on the CPU, which is assumed to be on the GPU. On a GPU, PyTorch raises "
                '"Expected all tensors to be on the same device": move the batch with .to(device).',
            )

    def _create(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        device = kwargs.pop("device", None)
        kwargs.pop("pin_memory", None)
        if device is None:
            like = bool(args) and func in _LIKE | {torch.as_tensor, torch.asarray}
            on_gpu = self.is_on_gpu(args[0]) if like else self.default_on_gpu and func is not torch.from_numpy
        else:
            on_gpu = is_gpu(device)
        if func is _Tensor.new_tensor:
            tensor, data, *rest = args
            kwargs.setdefault("dtype", tensor.dtype)
            func, args = torch.tensor, (data, *rest)
        if func in _FROM_DATA:
            if args and isinstance(args[0], FakeTensor):
                made = args[0].to(kwargs["dtype"]) if kwargs.get("dtype") is not None else args[0]
                return self.to_gpu(made) if on_gpu else self.to_host(made)
            made = func(*args, **kwargs)
            return self.to_gpu(made) if on_gpu else made
        if not on_gpu:
            if func in _LIKE and isinstance(args[0], FakeTensor) and device is not None:
                args = (self.to_host(args[0]), *args[1:])
            return func(*args, **kwargs)
        requires_grad = kwargs.pop("requires_grad", False)
        args = tuple(map(_without_tensors, args))
        with torch.no_grad(), self._fake:
            kwargs.pop("generator", None)
            made = func(*args, **kwargs)
        self._recorder.allocate(made, "input")
        return made.requires_grad_() if requires_grad else made

    def _device(self, tensor: Any) -> torch.device:
        return GPU if self.is_on_gpu(tensor) else HOST

    def _cpu(self, tensor: Any, *_: Any, **__: Any) -> Any:
        return tensor if isinstance(tensor, torch.nn.Parameter) else self.to_host(tensor)

    def _numpy(self, tensor: Any, *_: Any, **__: Any) -> Any:
        return self.to_host(tensor.detach()).numpy()

    def _type(self, tensor: Any, dtype: Any = None, *_: Any, **__: Any) -> Any:
        if dtype is None:
            name = torch.empty((), dtype=tensor.dtype).type()
            return name.replace("torch.", "torch.cuda.") if self.is_on_gpu(tensor) else name
        if isinstance(dtype, torch.dtype):
            return tensor.to(dtype)
        name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
        kind: Any = getattr(torch, name.rpartition(".")[2]).dtype
        if ".cuda." in name:
            return tensor.to(kind) if self.is_on_gpu(tensor) else self.to_gpu(tensor, kind)
        return self.to_host(tensor).to(kind)

    def _to(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
        copy, form = kwargs.get("copy", False), kwargs.get("memory_format")
        for argument in args:
            if isinstance(argument, torch.dtype):
                dtype = argument
            elif isinstance(argument, torch.Tensor):
                device, dtype = self._device(argument), argument.dtype
            elif isinstance(argument, (str, torch.device)) or (
                isinstance(argument, int) and not isinstance(argument, bool)
            ):
                device = argument
        if device is None or (isinstance(tensor, FakeTensor) and is_gpu(device) == self.is_on_gpu(tensor)):
            rest = {} if form is None else {"memory_format": form}
            if dtype is None and form is None:
                return tensor.clone() if copy else tensor
            return _Tensor.to(tensor, dtype=dtype or tensor.dtype, copy=copy, **rest)
        if is_gpu(device):
            return self.to_gpu(tensor, dtype, form)
        if isinstance(tensor, FakeTensor):
            if isinstance(tensor, torch.nn.Parameter):
                return tensor
            tensor = self.to_host(tensor)
        return _Tensor.to(tensor, dtype=dtype or tensor.dtype)

    def _repr(self, tensor: Any, *_: Any, **__: Any) -> str:
        if not isinstance(tensor, FakeTensor):
            return _Tensor.__repr__(tensor)
        return (
            f"tensor(..., device='{self._device(tensor)}', size={tuple(tensor.shape)}, dtype={tensor.dtype})"
        )

    def _format(self, tensor: Any, spec: str) -> str:
        return format(self.to_host(tensor).item() if tensor.numel() == 1 else self._repr(tensor), spec)

    def _deepcopy(self, tensor: Any, memo: Any) -> Any:
        if id(tensor) in memo:
            return memo[id(tensor)]
        on_gpu = self.is_on_gpu(tensor)
        copy = self.without_values(tensor)
        if isinstance(tensor, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy, tensor.requires_grad)
        else:
            copy.requires_grad_(tensor.requires_grad)
        if on_gpu:
            self.to_gpu(copy)
        memo[id(tensor)] = copy
        return copy

    def _dropout(
        self, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False, **others: Any
    ) -> Any:
        if others.get("train", training) and p > 0.0:
            # What CUDA runs, with its mask; the host would multiply by a tensor of random numbers.
            return torch.native_dropout(input, p, True)[0]
        return input

    def _attention(self, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        mask = args[0] if args else kwargs.get("attn_mask")
        rest = {name: kwargs[name] for name in ("scale", "enable_gqa") if name in kwargs}
        causal = args[2] if len(args) > 2 else kwargs.get("is_causal", False)
        # The kernels of CUDA draw dropout inside, without memory; those of the host would not be used with it.
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=0.0, is_causal=causal, **rest
        )

    def _rms_norm(self, x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
        """One kernel since PyTorch 2.9, unless types differ; like that of layer norm, it keeps its input and a number for each row."""
        has_kernel = hasattr(torch.ops.aten, "_fused_rms_norm_backward")
        if has_kernel and (weight is None or weight.dtype == x.dtype):
            return torch.native_layer_norm(x, shape, weight, None, eps or 0.0)[0]
        return torch.nn.functional.rms_norm(x, shape, weight, eps)

    def _as_float32(self, value: Any) -> Any:
        if isinstance(value, FakeTensor) and value.dtype in (torch.float16, torch.bfloat16):
            return value.float()
        return value


def _sparse(like: Any, dtype: Any) -> Any:
    """A sparse tensor without values: one in compressed rows or columns takes less for their places, which is not modelled."""
    sparse = like.sparse_dim() if like.layout is torch.sparse_coo else 2
    places = torch.empty((sparse, 0), dtype=torch.int64)
    return torch.sparse_coo_tensor(places, torch.empty((0, *like.shape[sparse:]), dtype=dtype), like.shape)


def _without_tensors(value: Any) -> Any:
    """A size whose numbers may be tensors of the host, with these as numbers."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(_without_tensors, value)) if type(value) in (tuple, list) else value
    is_number = type(value) is torch.Tensor and value.dim() == 0
    return value.item() if is_number else value


_HOST_VALUES = (type(None), bool, int, float, str, slice, type(...), torch.dtype, torch.Size)


def _is_of_host(value: Any) -> bool:
    """Whether an argument has nothing to do with the GPU: a value, a tensor without gradients, or several of these."""
    kind = type(value)
    if kind is torch.Tensor:
        return not value.requires_grad
    if kind in (tuple, list):
        return all(map(_is_of_host, value))
    return kind in _HOST_VALUES or kind.__module__ == "numpy"


_PASS_DEVICE = {_Tensor.to, torch._C._nn._parse_to}
"""Functions that move nothing to a device that they are given: the second one reads the arguments of `Module.to`."""
_ON_HOST_TOO = {_Tensor.cuda, _Tensor.to, _Tensor.type, _Tensor.pin_memory, _Tensor.is_pinned}


def is_gpu(device: Any) -> bool:
    """Whether a device, as scripts name it, is a GPU."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    if isinstance(device, str):
        return device.startswith("cuda")
    return isinstance(device, int) and not isinstance(device, bool)
