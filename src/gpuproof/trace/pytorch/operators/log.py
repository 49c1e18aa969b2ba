"""Records every operator that runs on the GPU, and answers those whose result depends on values."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gpuproof.trace.document import INDEX
from gpuproof.trace.notes import Notes
from gpuproof.trace.pytorch.fake_gpu import HOST, FakeGpu, is_gpu
from gpuproof.trace.pytorch.operators.classes import (
    calls_cublas,
    convolution_workspaces,
    flops_of,
    gemm_of,
    kernels_of,
    kind_of,
    layout_of,
)
from gpuproof.trace.pytorch.operators.finite_values import is_true
from gpuproof.trace.pytorch.operators.results import Effect, KnownResults, OperatorResults
from gpuproof.trace.pytorch.operators.sequences import pack
from gpuproof.trace.pytorch.recorder import Call, Recorder

aten = torch.ops.aten
_DEVICE = torch.ops.prim.device.default
_FLOAT, _INT = 0.5, 1
_CLEARING = ("zero_", "_foreach_zero_", "fill_")
"""What `zero_grad` calls."""
_LSTM_STATES = 5


class OperatorLog(TorchDispatchMode):
    """Records operators while it is active.

    Args:
        recorder: takes operators and memory.
        fake: the mode that all tensors of the GPU belong to.
        notes: takes assumptions about values.
        gpu: learns when an operator runs.
    """

    def __init__(self, recorder: Recorder, fake: FakeTensorMode, notes: Notes, gpu: FakeGpu) -> None:
        super().__init__()
        self._gpu = gpu
        self._recorder = recorder
        self._fake = fake
        self._notes = notes
        self.in_optimizer = False
        self.has_used_weights = False
        """Whether an operator of an optimizer, or of a script that has none, took a parameter or a gradient."""
        self._results = OperatorResults(fake)
        self._by_value: dict[Any, Callable[..., Any]] = {
            aten._local_scalar_dense.default: self._scalar,
            aten.equal.default: self._equal,
            aten.nonzero.default: self._nonzero,
            aten.masked_select.default: self._masked_select,
            aten._unique2.default: self._unique,
            aten.index.Tensor: self._index,
            aten._nnz.default: lambda func, args, *_: self._recorder.values_of_sparse(args[0]),
            aten._values.default: self._sparse_values,
            aten.values.default: self._sparse_values,
            aten._indices.default: self._sparse_places,
            aten.indices.default: self._sparse_places,
            aten._ctc_loss.default: self._alignments,
            aten._ctc_loss.Tensor: self._alignments,
            aten._ctc_loss_backward.default: self._alignment_gradient,
            aten._ctc_loss_backward.Tensor: self._alignment_gradient,
            aten.mkldnn_rnn_layer.default: self._recurrent,
            aten._pack_padded_sequence.default: lambda func, args, kwargs, on_gpu: pack(self._fake, *args),
        }

        self._by_name: dict[str, Callable[..., Any]] = {"torchvision.nms.default": self._suppress}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and PyTorch's guard would take as long as an operator

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator on shapes alone, if one of its tensors is not on the host."""
        if func is _DEVICE and type(args[0]) is FakeTensor and not args[0].fake_mode.in_kernel_invocation:
            return args[0].fake_device  # most questions are this one, from the autograd engine
        kwargs = dict(kwargs or {})
        if func is aten._to_copy.default and ("layout" in kwargs or _is_gradient_of_cast()):
            # It names the physical device of another tensor on the GPU: of the one whose type PyTorch's own code takes on, as in
            # `rms_norm`, which names the layout, too, or of the one that was cast, whose gradient stays where it is.
            kwargs.pop("device", None)
        device = kwargs.get("device")
        if device is not None:
            if func is aten._to_copy.default and is_gpu(device) != self._gpu.is_on_gpu(args[0]):
                move = self._gpu.to_gpu if is_gpu(device) else self._gpu.to_host
                moved = move(args[0])
                return moved if kwargs.get("dtype") is None else moved.to(kwargs["dtype"])
            if is_gpu(device):
                return self._create(func, args, {**kwargs, "device": HOST})
        inputs = _fake_tensors((*args, *kwargs.values()))
        if not inputs or func.namespace == "prim":  # what is asked about a tensor, such as its device
            return func(*args, **kwargs)
        recorder = self._recorder
        on_gpu = any(recorder.is_allocated(tensor) for tensor in inputs)
        if on_gpu:
            self._enter_phase()
        special = self._by_value.get(func) or self._by_name.get(str(func))
        self._gpu.inside += 1
        try:
            known = None
            if special is not None:
                result = special(func, args, kwargs, on_gpu)
            else:
                result, known = self._results.call(func, args, kwargs, inputs)
            if on_gpu:
                self._record(func, args, inputs, result, known)
                if self.in_optimizer and not self.has_used_weights:
                    self.has_used_weights = self._uses_weights(func, inputs)
        finally:
            self._gpu.inside -= 1
        return result

    def _create(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A new tensor on the GPU, which a function of PyTorch that is not seen as a whole creates."""
        self._gpu.inside += 1
        try:
            with self._fake:
                made = func(*args, **kwargs)
        finally:
            self._gpu.inside -= 1
        self._recorder.allocate(made, "temporary")
        return made

    def _enter_phase(self) -> None:
        recorder = self._recorder
        if torch._C._current_graph_task_id() != -1:
            phase = "backward"
        else:
            phase = "optimizer" if self.in_optimizer else "forward"
        if phase != recorder.phase:
            recorder.enter(phase)

    def _record(
        self, func: Any, args: Any, inputs: list[Any], result: Any, known: KnownResults | None
    ) -> None:
        recorder = self._recorder
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, FakeTensor)]
        effect = None if known is None else known.effects.get(recorder.phase)
        if effect is None:
            effect = self._effect(func, args, inputs, outputs, result)
            if known is not None:
                known.effects[recorder.phase] = effect
        recorder.host_operators += 1
        if effect.calls_cublas:
            recorder.reserve_workspace()
        category = {"forward": "activation", "optimizer": "optimizer"}.get(recorder.phase, "temporary")
        for tensor, workspace in zip(outputs, effect.workspaces):  # noqa: B905 - Python 3.9
            recorder.allocate(tensor, category)
            recorder.use_temporarily(workspace)
        if effect.call is not None:
            recorder.call(effect.call)

    def _uses_weights(self, func: Any, inputs: list[Any]) -> bool:
        name = func.overloadpacket.__name__
        if name in _CLEARING or kernels_of(name, func.is_view, 1) == 0:
            return False
        return any(map(self._recorder.is_weight, inputs))

    def _effect(self, func: Any, args: Any, inputs: list[Any], outputs: list[Any], result: Any) -> Effect:
        recorder = self._recorder
        name = func.overloadpacket.__name__
        layout = layout_of([tensor for tensor in (*inputs, *outputs) if not _is_sparse(tensor)])
        by_result = convolution_workspaces(name, args, result, layout)
        workspaces = [by_result.get(id(tensor), 0) for tensor in outputs]
        self._set_sparse(func, args, inputs, outputs)
        several = args[0] if args and isinstance(args[0], (list, tuple)) else ()
        kernels = kernels_of(name, func.is_view, len(several))
        if kernels == 0:
            return Effect(calls_cublas(name), workspaces, None)
        kind = kind_of(name, recorder.phase, args)
        gemm = gemm_of(name, args, result)
        sizes = [recorder.bytes_of(tensor) for tensor in inputs]
        if kind == INDEX and outputs and len(sizes) > 1:
            sizes.remove(max(sizes))  # only some rows are read
            sizes += [recorder.bytes_of(tensor) for tensor in outputs]
        written = outputs or (several if name.endswith("_") else [])
        largest = max(map(self._count, (*inputs, *outputs)), default=0)
        if several:
            largest = sum(tensor.numel() for tensor in several if isinstance(tensor, FakeTensor))
        flops = flops_of(name, args, gemm, largest)
        if sparse := [tensor for tensor in inputs if _is_sparse(tensor)]:
            kind, gemm, sizes, written = INDEX, (), [max(map(recorder.bytes_of, sparse))] * 2, []
            flops = float(sizes[0] // sparse[0].element_size())
            if "mm" in name:
                # Each value of the sparse matrix takes a row of the other one.
                values, columns = max(map(recorder.values_of_sparse, sparse)), outputs[0].shape[-1]
                flops = 2.0 * values * columns
                sizes[1] = values * columns * outputs[0].element_size()
                written = outputs
        floating = [tensor.dtype for tensor in (*inputs, *outputs) if tensor.dtype.is_floating_point]
        call = Call(
            str(func.overloadpacket),
            kind,
            str(floating[0] if floating else inputs[0].dtype).partition(".")[2],
            recorder.phase,
            flops,
            float(
                sum(sizes)
                + sum(recorder.bytes_of(tensor) for tensor in written if isinstance(tensor, FakeTensor))
            ),
            kernels,
            tuple(tuple(tensor.shape) for tensor in inputs[:4]),
            gemm,
            layout,
        )
        return Effect(calls_cublas(name), workspaces, call)

    def _set_sparse(self, func: Any, args: Any, inputs: list[Any], outputs: list[Any]) -> None:
        """Say how many values the sparse results have: those of which they are made, or as many as the sparse arguments."""
        recorder = self._recorder
        for tensor in outputs:
            if not _is_sparse(tensor) or recorder.values_of_sparse(tensor):
                continue
            if func is aten._sparse_coo_tensor_with_dims_and_tensors.default:
                values = args[3].shape[-1]
            else:
                values = max(map(recorder.values_of_sparse, filter(_is_sparse, inputs)), default=0)
            recorder.set_sparse(tensor, values)

    def _count(self, tensor: Any) -> int:
        if _is_sparse(tensor):
            return self._recorder.bytes_of(tensor) // tensor.element_size()
        return tensor.numel()

    def _sparse_values(self, func: Any, args: Any, kwargs: Any, on_gpu: bool) -> Any:
        tensor = args[0]
        shape = self._recorder.values_of_sparse(tensor), *tensor.shape[tensor.sparse_dim() :]
        with self._fake:
            return torch.empty(shape, dtype=tensor.dtype)

    def _sparse_places(self, func: Any, args: Any, kwargs: Any, on_gpu: bool) -> Any:
        with self._fake:
            return torch.empty(
                (args[0].sparse_dim(), self._recorder.values_of_sparse(args[0])), dtype=torch.int64
            )

    def _scalar(self, func: Any, args: Any, kwargs: Any, on_gpu: bool) -> Any:
        kind = args[0].dtype
        value: Any = is_true(args[0]) if kind is torch.bool else (_FLOAT if kind.is_floating_point else _INT)
        if on_gpu:
            self._notes.add("value", f"A value that is only known on the GPU: assumed {value}.")
        return value

    def _equal(self, func: Any, args: Any, kwargs: Any, on_gpu: bool) -> bool:
        self._notes.add("value", "Tensors that are compared are assumed to be equal.")
        return True

    def _nonzero(self, func: Any, args: Any, kwargs: Any, on_gpu: bool) -> Any:
        self._note_shape("nonzero")
        with self._fake:
            return torch.empty((args[0].numel(), args[0].ndim), dtype=torch.int64)

    def _masked_select(self, func: Any, args: Any, kwargs: Any, on_gpu: bool) -> Any:
        self._note_shape("masked_select")
        shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
        with self._fake:
            return torch.empty(shape.numel(), dtype=args[0].dtype)

    def _unique(self, func: Any, args: Any, kwargs: Any, on_gpu: bool) -> Any:
        self._note_shape("unique")
        size = args[0].numel()
        with self._fake:
            values = torch.empty(size, dtype=args[0].dtype)
            return values, torch.empty(args[0].shape, dtype=torch.int64), torch.empty(size, dtype=torch.int64)

    def _suppress(self, func: Any, args: Any, kwargs: Any, on_gpu: bool) -> Any:
        self._note_shape("non-maximum suppression")
        with self._fake:
            return torch.empty(args[0].shape[0], dtype=torch.int64)

    def _index(self, func: Any, args: Any, kwargs: Any, on_gpu: bool) -> Any:
        indices: list[Any] = []
        for index in args[1]:
            if index is None or index.dtype not in (torch.bool, torch.uint8):
                indices.append(index)
                continue
            self._note_shape("a mask")
            with self._fake:
                indices += [torch.empty(index.numel(), dtype=torch.int64) for _ in range(index.ndim)]
        return func(args[0], indices, *args[2:], **kwargs)

    def _recurrent(self, func: Any, args: Any, kwargs: Any, on_gpu: bool) -> Any:
        """An LSTM layer, for whose gradients cuDNN keeps the four gates and the cell state of each time step."""
        output, *states, _ = func(*args, **kwargs)
        size = _LSTM_STATES * _bytes(output) if args[-1] else 0
        with self._fake:
            return output, *states, torch.empty(size, dtype=torch.uint8)

    def _alignments(self, func: Any, args: Any, kwargs: Any, on_gpu: bool) -> Any:
        """The loss of each sequence, and the probabilities of its alignments: two states for each label, and one."""
        probabilities, targets, _, lengths = args[:4]
        time, sequences, _ = probabilities.shape
        if isinstance(lengths, FakeTensor):
            longest = targets.shape[-1]
        else:
            longest = max((int(length) for length in lengths), default=0)
        with self._fake:
            losses = torch.empty(sequences, dtype=probabilities.dtype)
            return losses, torch.empty((sequences, time, 2 * longest + 1), dtype=probabilities.dtype)

    def _alignment_gradient(self, func: Any, args: Any, kwargs: Any, on_gpu: bool) -> Any:
        with self._fake:
            return torch.empty(args[1].shape, dtype=args[1].dtype)

    def _note_shape(self, what: str) -> None:
        self._notes.add("dynamic-shape", f"The result of {what} is assumed to be as large as it can be.")


def _fake_tensors(arguments: Any) -> list[Any]:
    """Those among the arguments of an operator, which are values and lists of values."""
    found: list[Any] = []
    for argument in arguments:
        if isinstance(argument, FakeTensor):
            found.append(argument)
        elif isinstance(argument, (list, tuple)):
            found += [item for item in argument if isinstance(item, FakeTensor)]
    return found


def _is_sparse(tensor: Any) -> bool:
    return tensor.layout is not torch.strided


def _is_gradient_of_cast() -> bool:
    """Whether the backward pass of a change of the type runs, such as those that autocast makes."""
    node: Any = torch._C._current_autograd_node()
    return node is not None and node.name() == "ToCopyBackward0"


def _bytes(tensor: Any) -> int:
    return tensor.numel() * tensor.element_size()
