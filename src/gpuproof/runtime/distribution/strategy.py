"""`strategy()`: the TensorFlow distribution strategy for the job's GPUs and hosts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from gpuproof.runtime.call_site import caller, find_first_call, format_location
from gpuproof.runtime.contract import host_index, hosts, tf_config
from gpuproof.runtime.device import fall_back_to_cpu
from gpuproof.runtime.distribution.hosts import host_address
from gpuproof.runtime.distribution.keras_multi_host import guard_fit
from gpuproof.runtime.distribution.parameter_server import serve
from gpuproof.runtime.distribution.tensorflow_ranks import all_workers, use_own_gpu
from gpuproof.runtime.imported_frameworks import TENSORFLOW, load_module
from gpuproof.runtime.ranks import ranks
from gpuproof.util.tf_config import (
    CHIEF,
    EVALUATOR,
    MASTER,
    WORKER,
    separate_server_config,
    with_chief,
)
from gpuproof.util.tf_config import PARAMETER_SERVER as PARAMETER_SERVERS

ONE_DEVICE = "one-device"
MIRRORED = "mirrored"
MULTI_WORKER = "multi-worker"
PARAMETER_SERVER = "parameter-server"
KINDS = (ONE_DEVICE, MIRRORED, MULTI_WORKER, PARAMETER_SERVER)
_LAUNCHER = "GPUPROOF_DISTRIBUTION"

_strategies: dict[str, Any] = {}


def strategy(kind: str | None = None, allow_cpu: bool = False) -> Any:
    """Return the `tf.distribute` strategy for the job's GPUs and hosts; build the model within its `scope()`.

    Without `kind`, it is `ParameterServerStrategy` if `TF_CONFIG` has parameter servers, otherwise
    `MultiWorkerMirroredStrategy` for several hosts, and for several processes of torchrun or MPI, `MirroredStrategy` for
    several GPUs, and `OneDeviceStrategy` for one. With `distribution: mirrored`, and for an evaluator, hosts are
    independent. If `TF_CONFIG` is not set, it is created from the launcher's ranks or SageMaker's `SM_HOSTS`. With several
    hosts, call it before the first operation. Calling it again returns the same object.

    With parameter servers, the first host coordinates; on workers and servers this call does not return: the process
    serves until the chief is gone, then exits with 0. SageMaker calls the first task `master`, which TensorFlow 2 rejects:
    it is renamed to `chief` in `TF_CONFIG`. If neither SageMaker nor the launcher has started servers, the last host is one.

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
    gpus = len(tensorflow.config.get_visible_devices("GPU"))
    chosen = choose_kind(kind, gpus, tf_config(), os.environ.get(_LAUNCHER), _processes())
    if chosen not in _strategies:
        _strategies[chosen] = _create_strategy(tensorflow, chosen, allow_cpu)
    return _strategies[chosen]


def global_batch_size(per_replica: int, strategy: Any) -> int:
    """Examples per step over all replicas: the argument of `Dataset.batch` under a strategy.

    Args:
        per_replica: examples per GPU.
    """
    return per_replica * int(strategy.num_replicas_in_sync)


def choose_kind(
    kind: str | None, gpus: int, config: Mapping[str, Any], launcher: str | None, processes: int
) -> str:
    """The strategy for a process.

    Args:
        kind: the script's choice, if it made one.
        config: `TF_CONFIG`; empty if not set.
        launcher: the job's, such as `mirrored`; `None` outside a job.
        processes: number of hosts, or of ranks if a launcher has set them.
    """
    local = MIRRORED if gpus > 1 else ONE_DEVICE
    if config.get("task", {}).get("type") == EVALUATOR:
        # It is not part of the cluster: it evaluates checkpoints on its own.
        return local if kind is None or kind in (MULTI_WORKER, PARAMETER_SERVER) else kind
    if kind is not None:
        return kind
    cluster = config.get("cluster", {})
    if PARAMETER_SERVERS in cluster:
        return PARAMETER_SERVER
    if launcher == "mirrored":
        return local
    workers = sum(len(cluster.get(name, ())) for name in (CHIEF, MASTER, WORKER)) if cluster else processes
    return MULTI_WORKER if workers > 1 else local


def _processes() -> int:
    found = ranks()
    return found.size if found is not None else len(hosts())


def _create_strategy(tensorflow: Any, kind: str, allow_cpu: bool) -> Any:
    distribute = tensorflow.distribute
    if kind == PARAMETER_SERVER:
        return _parameter_server_strategy(tensorflow, allow_cpu)
    use_own_gpu(tensorflow)
    gpus = len(tensorflow.config.get_visible_devices("GPU"))
    if gpus == 0:
        fall_back_to_cpu(TENSORFLOW, allow_cpu)
    if kind == ONE_DEVICE:
        return distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0")
    if kind == MIRRORED:
        return distribute.MirroredStrategy() if gpus else distribute.MirroredStrategy(["/cpu:0"])
    if not tf_config() or PARAMETER_SERVERS in tf_config().get("cluster", {}):
        # SageMaker's cluster with parameter servers has no tasks for this strategy.
        os.environ["TF_CONFIG"] = json.dumps(all_workers())
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
    except tensorflow.errors.UnknownError as error:
        # TensorFlow does not say which port, nor why.
        if "gRPC server" not in str(error):
            raise
        raise RuntimeError(_port_message()) from error
    guard_fit(result, "MultiWorkerMirroredStrategy", _host_count())
    return result


def _parameter_server_strategy(tensorflow: Any, allow_cpu: bool) -> Any:
    if not tf_config():
        os.environ["TF_CONFIG"] = json.dumps(separate_server_config(hosts(), host_index(), host_address))
    config = with_chief(tf_config())
    os.environ["TF_CONFIG"] = json.dumps(config)
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


def _port_message() -> str:
    config = tf_config()
    task = config["task"]
    address = config["cluster"][task["type"]][task["index"]]
    return (
        f"strategy(): TensorFlow cannot listen on port {address.rpartition(':')[2]} of this host ({address} in TF_CONFIG), probably "
        "because another process does: end it (ss -ltnp shows it), or use another port"
    )


def _host_count() -> int:
    return sum(len(addresses) for addresses in tf_config().get("cluster", {}).values())
