"""What TensorFlow answers about GPUs: the script believes that it has those of the target."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from gpuproof.trace.notes import is_users
from gpuproof.trace.target import TargetGpu

_GPU = "GPU"


def answer_for(target: TargetGpu, is_recorded: Callable[[], bool]) -> None:
    """Answer questions about GPUs from now on; operators that are placed on them run on the CPU.

    TensorFlow's own code sees the GPUs only where no operator needs one: there Keras chooses the operators of cuDNN.

    Args:
        target: the GPU.
        is_recorded: whether eager operators are recorded; graphs are never run.
    """
    physical = [tf.config.PhysicalDevice(f"/physical_device:GPU:{i}", _GPU) for i in range(target.count)]
    logical = [tf.config.LogicalDevice(f"/device:GPU:{i}", _GPU) for i in range(target.count)]
    config = tf.config
    experimental = config.experimental
    tf.config.set_soft_device_placement(True)

    def listed(original: Callable[..., Any], gpus: list[Any]) -> Callable[..., Any]:
        def call(device_type: str | None = None) -> list[Any]:
            found = list(original(device_type))
            by_user = is_users(sys._getframe(1).f_code.co_filename)
            if gpus is logical and not by_user and tf.executing_eagerly() and not is_recorded():
                return found
            return found + gpus if device_type in (None, _GPU) else found

        return call

    def unless_gpu(original: Callable[..., Any], answer: Any = None) -> Callable[..., Any]:
        def call(device: Any = None, *args: Any, **kwargs: Any) -> Any:
            devices = (
                device if isinstance(device, (list, tuple)) and not hasattr(device, "name") else [device]
            )
            if any(_GPU in str(getattr(device, "name", device)) for device in devices) or _GPU in args:
                return answer
            return original(device, *args, **kwargs)

        return call

    def limited(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(name: Any) -> Any:
            return original(_on_cpu(name))

        return call

    for module in (config, experimental):
        for name, gpus in (
            *(("list_physical_devices", physical), ("list_logical_devices", logical)),
            *(("get_visible_devices", physical),),
        ):
            if hasattr(module, name):
                setattr(module, name, listed(getattr(module, name), gpus))
        for name in (
            *("set_memory_growth", "set_visible_devices", "set_logical_device_configuration"),
            *("set_virtual_device_configuration", "reset_memory_stats", "set_memory_growth"),
        ):
            if hasattr(module, name):
                setattr(module, name, unless_gpu(getattr(module, name)))
    details = {"device_name": target.name, "compute_capability": target.capability}
    experimental.get_device_details = unless_gpu(experimental.get_device_details, details)
    experimental.get_memory_info = unless_gpu(experimental.get_memory_info, {"current": 0, "peak": 0})
    experimental.get_memory_growth = unless_gpu(experimental.get_memory_growth, True)
    tf.test.is_gpu_available = lambda *_, **__: True
    tf.test.gpu_device_name = lambda: "/device:GPU:0"
    tf.test.is_built_with_cuda = lambda: True
    tf.device = limited(tf.device)
    context.Context.device = _placed(context.Context.device)


def _placed(original: Callable[..., Any]) -> Callable[..., Any]:
    def device(self: Any, name: Any) -> Any:
        return original(self, _on_cpu(name))

    return device


def _on_cpu(name: Any) -> Any:
    return "/CPU:0" if isinstance(name, str) and _GPU in name.upper() else name


def pretend_replicas(target: TargetGpu, used: dict[str, str]) -> None:
    """Let `MirroredStrategy` have as many replicas as GPUs, of which one is traced.

    Args:
        target: says how many.
        used: its `name` becomes `mirrored` when a script makes such a strategy.
    """
    strategy = tf.distribute.MirroredStrategy
    initialize = strategy.__init__

    def create(self: Any, *_: Any, **__: Any) -> None:
        used["name"] = "mirrored"
        initialize(self, devices=["/cpu:0"])

    strategy.__init__ = create
    own = tf.distribute.Strategy.num_replicas_in_sync

    def count(self: Any) -> int:
        return target.count if isinstance(self, strategy) else own.fget(self)

    strategy.num_replicas_in_sync = property(count)
