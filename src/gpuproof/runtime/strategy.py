"""`strategy()`: the TensorFlow distribution strategy for the job's GPUs and hosts."""

from __future__ import annotations

import json
import os
from typing import Any

from gpuproof.runtime.call_site import caller, find_first_call, format_location
from gpuproof.runtime.contract import host_index, hosts, tf_config
from gpuproof.runtime.device import fall_back_to_cpu
from gpuproof.runtime.hosts import CHIEF, parameter_server_config, worker_config
from gpuproof.runtime.imported_frameworks import TENSORFLOW, load_module
from gpuproof.runtime.keras_multi_host import guard_fit
from gpuproof.runtime.parameter_server import serve

ONE_DEVICE = "one-device"
MIRRORED = "mirrored"
MULTI_WORKER = "multi-worker"
PARAMETER_SERVER = "parameter-server"
KINDS = (ONE_DEVICE, MIRRORED, MULTI_WORKER, PARAMETER_SERVER)

_strategies: dict[str, Any] = {}


def strategy(kind: str | None = None, allow_cpu: bool = False) -> Any:
    """Return the `tf.distribute` strategy for the job's GPUs and hosts; build the model within its `scope()`.

    With one GPU it is `OneDeviceStrategy`, with several `MirroredStrategy`, with several hosts
    `MultiWorkerMirroredStrategy`. Hosts come from `TF_CONFIG`, or else from SageMaker's `SM_HOSTS`, from which `TF_CONFIG`
    is then created. With several hosts, call it before the first operation. Calling it again returns the same object.

    With `parameter-server`, the first host coordinates, the last one is the server and the others are workers (unless
    `TF_CONFIG` sets other roles). On server and workers this call does not return: the process serves until the chief is
    gone, then exits with 0.

    Args:
        kind: `one-device`, `mirrored`, `multi-worker` or `parameter-server`; `None` to choose it.
        allow_cpu: use the CPU if no GPU is usable, with one message on standard error.

    Raises:
        GpuRequired: no GPU is usable; with reason and remedy.
        RuntimeError: with several hosts, TensorFlow has already run an operation.
        KerasFitUnsupported: later, in `model.fit` of Keras 3 under a strategy that it does not support.
        ValueError: unknown kind, or too few hosts for it.
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(f"strategy({kind!r}): use one of {', '.join(KINDS)}")
    tensorflow = load_module(TENSORFLOW)
    chosen = kind or _choose_kind(len(_workers()), len(tensorflow.config.get_visible_devices("GPU")))
    if chosen not in _strategies:
        _strategies[chosen] = _create_strategy(tensorflow, chosen, allow_cpu)
    return _strategies[chosen]


def global_batch_size(per_replica: int, strategy: Any) -> int:
    """Examples per step over all replicas: the argument of `Dataset.batch` under a strategy.

    Args:
        per_replica: examples per GPU.
    """
    return per_replica * int(strategy.num_replicas_in_sync)


def _choose_kind(workers: int, gpus: int) -> str:
    if workers > 1:
        return MULTI_WORKER
    return MIRRORED if gpus > 1 else ONE_DEVICE


def _create_strategy(tensorflow: Any, kind: str, allow_cpu: bool) -> Any:
    distribute = tensorflow.distribute
    if kind == PARAMETER_SERVER:
        return _parameter_server_strategy(tensorflow, allow_cpu)
    gpus = len(tensorflow.config.get_visible_devices("GPU"))
    if gpus == 0:
        fall_back_to_cpu(TENSORFLOW, allow_cpu)
    if kind == ONE_DEVICE:
        return distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0")
    if kind == MIRRORED:
        return distribute.MirroredStrategy() if gpus else distribute.MirroredStrategy(["/cpu:0"])
    if not tf_config():
        os.environ["TF_CONFIG"] = json.dumps(worker_config(hosts() or ("localhost",), host_index()))
    implementation = distribute.experimental.CommunicationImplementation
    options = distribute.experimental.CommunicationOptions(
        implementation=implementation.NCCL if gpus else implementation.RING
    )
    try:
        result = distribute.MultiWorkerMirroredStrategy(communication_options=options)
    except RuntimeError as error:
        if "program startup" not in str(error):
            raise
        raise RuntimeError(_too_late_message()) from error
    guard_fit(result, "MultiWorkerMirroredStrategy", _host_count())
    return result


def _parameter_server_strategy(tensorflow: Any, allow_cpu: bool) -> Any:
    if not tf_config():
        os.environ["TF_CONFIG"] = json.dumps(parameter_server_config(hosts(), host_index()))
    config = tf_config()
    task = config.get("task", {})
    if task.get("type") != CHIEF:
        if task.get("type") == "worker" and not tensorflow.config.get_visible_devices("GPU"):
            fall_back_to_cpu(TENSORFLOW, allow_cpu)
        serve(tensorflow, config)
    resolver = tensorflow.distribute.cluster_resolver.TFConfigClusterResolver()
    result = tensorflow.distribute.ParameterServerStrategy(resolver)
    guard_fit(result, "ParameterServerStrategy", _host_count())
    return result


def _too_late_message() -> str:
    file, line = caller()
    first_call = find_first_call(TENSORFLOW, file, line)
    early = f"; the first call above is {first_call}" if first_call else ""
    return (
        f"strategy() in {format_location(file, line)} comes too late: several hosts must be joined before TensorFlow's first "
        f"operation{early}. Move strategy() to the start of the script."
    )


def _workers() -> tuple[str, ...]:
    """Hosts that compute: the workers and chief of `TF_CONFIG`, or else the job's hosts."""
    cluster = tf_config().get("cluster", {})
    return tuple(cluster.get(CHIEF, ())) + tuple(cluster.get("worker", ())) if cluster else hosts()


def _host_count() -> int:
    return sum(len(addresses) for addresses in tf_config().get("cluster", {}).values())
