"""What a script wraps its model, or a part of it, in: torch.compile, DataParallel, DDP, FSDP, activation checkpointing."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.utils.checkpoint
from torch.distributed.algorithms._checkpoint import checkpoint_wrapper

from gpuproof.trace.document import Sharding
from gpuproof.trace.notes import Notes
from gpuproof.trace.pytorch.distributed import ring_bytes
from gpuproof.trace.pytorch.fake_gpu import FakeGpu
from gpuproof.trace.pytorch.fsdp import ShardedModels
from gpuproof.trace.pytorch.modules import SingleGpu, gradient_buckets, save_attention_of_gpus


class Wrappers:
    """The wrappers that a script has used.

    Args:
        gpu: knows which parameters are on the GPU.
        notes: takes assumptions.
        world: number of GPUs in the script's environment.

    Attributes:
        compiled: it has used torch.compile, which is left out.
        checkpointing: it recomputes activations.
        strategy: `none`, `data-parallel`, `ddp` or `fsdp`.
    """

    def __init__(self, gpu: FakeGpu, notes: Notes, world: int) -> None:
        self._gpu, self._world = gpu, world
        self.compiled = self.checkpointing = False
        self.strategy = "none"
        self._sharded = ShardedModels(notes, self._wrapped)
        self._buckets: list[Any] = []

    def install(self) -> None:
        """Watch these functions from now on; each wrapper is the share of one GPU."""

        def compile_(model: Any = None, **_: Any) -> Any:
            self.compiled = True
            return model if model is not None else (lambda function: function)

        torch.compile = compile_  # type: ignore[assignment]
        torch.nn.Module.compile = lambda self, *_, **__: compile_()  # type: ignore[method-assign,assignment]
        torch.nn.DataParallel = torch.nn.parallel.DataParallel = self._wrapper("data-parallel")  # type: ignore[misc,assignment]
        torch.nn.parallel.DistributedDataParallel = self._wrapper("ddp")  # type: ignore[misc,assignment]
        checkpoint = torch.utils.checkpoint.checkpoint

        def noted(function: Any, *args: Any, **kwargs: Any) -> Any:
            self.checkpointing = True

            def run(*inner: Any, **names: Any) -> Any:
                # The backward pass recomputes it within a function of PyTorch, for which the mode is off.
                with nullcontext() if torch._C._len_torch_function_stack() else self._gpu:
                    return function(*inner, **names)

            return checkpoint(run, *args, **kwargs)

        torch.utils.checkpoint.checkpoint = checkpoint_wrapper.torch_utils_checkpoint = noted  # type: ignore[assignment]
        save_attention_of_gpus()
        self._sharded.install()

    def sharding(self) -> Sharding | None:
        """How FSDP shards the model."""
        return self._sharded.sharding()

    def bytes_sent(self, parameters: list[Any]) -> float:
        """Bytes of gradients and parameters that the strategy sends from this GPU in a step."""
        if self.strategy == "none" or self._world == 1:
            return 0.0
        gradients = sum(
            parameter.numel() * parameter.element_size()
            for parameter in parameters
            if parameter.requires_grad
        )
        # FSDP gathers the parameters twice and scatters the gradients once: half of a reduction each.
        sharding = self.sharding() if self.strategy == "fsdp" else None
        reductions = 1.0 if self.strategy != "fsdp" else 1 + (sharding.reduce_factor if sharding else 1.0) / 2
        return ring_bytes(gradients, self._world) * reductions

    def _wrapper(self, strategy: str) -> Callable[..., Any]:
        wrapped = self._wrapped

        class Wrapped(SingleGpu):
            def __init__(self, module: Any, *_: Any, **__: Any) -> None:
                super().__init__(module)
                wrapped(strategy, module)

        return Wrapped

    def _wrapped(self, strategy: str, module: Any) -> None:
        self.strategy = strategy
        if strategy == "ddp":
            self._buckets += gradient_buckets(module, self._gpu)
