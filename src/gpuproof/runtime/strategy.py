"""`strategy()`: TensorFlow's way to use the GPUs and hosts that there are."""

from __future__ import annotations

import json
import os
from typing import Any

from gpuproof.runtime.call_site import caller, first_use, place
from gpuproof.runtime.contract import host_number, hosts, tf_config
from gpuproof.runtime.device import fall_back_to_cpu
from gpuproof.runtime.hosts import CHIEF, parameter_server_config, worker_config
from gpuproof.runtime.imported_frameworks import TENSORFLOW, load
from gpuproof.runtime.keras_multi_host import guard_fit
from gpuproof.runtime.parameter_server import serve

ONE_DEVICE = "one-device"
MIRRORED = "mirrored"
MULTI_WORKER = "multi-worker"
PARAMETER_SERVER = "parameter-server"
KINDS = (ONE_DEVICE, MIRRORED, MULTI_WORKER, PARAMETER_SERVER)

_made: dict[str, Any] = {}


def strategy(kind: str | None = None, allow_cpu: bool = False) -> Any:
    """The `tf.distribute` strategy for what is here; build the model within its `scope()`.

    One GPU gives `OneDeviceStrategy`, several `MirroredStrategy`, several hosts `MultiWorkerMirroredStrategy`. Hosts
    come from `TF_CONFIG`, else from SageMaker's `SM_HOSTS`, of which `TF_CONFIG` is then made. Call it before the first
    operation where there are several hosts; calling it again gives the same object.

    With `parameter-server` the first host coordinates, the last is the server and those between are workers (unless
    `TF_CONFIG` says otherwise). On server and workers this call does not return: the process serves until the chief has
    gone, then exits with 0.

    Args:
        kind: `one-device`, `mirrored`, `multi-worker` or `parameter-server`; `None` chooses.
        allow_cpu: do with the CPU where there is no usable GPU, and say so once.

    Raises:
        GpuRequired: there is no usable GPU; says why and what to do.
        RuntimeError: several hosts, and TensorFlow has already run an operation.
        KerasFitUnsupported: later, from `model.fit` of Keras 3 under a strategy that it cannot train with.
        ValueError: an unknown kind, or too few hosts for it.
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(f"strategy({kind!r}): one of {', '.join(KINDS)}")
    tensorflow = load(TENSORFLOW)
    chosen = kind or _choose(len(_workers()), len(tensorflow.config.get_visible_devices("GPU")))
    if chosen not in _made:
        _made[chosen] = _make(tensorflow, chosen, allow_cpu)
    return _made[chosen]


def global_batch_size(per_replica: int, strategy: Any) -> int:
    """Examples in one step over all replicas: what `Dataset.batch` gets under a strategy.

    Args:
        per_replica: examples for one GPU.
    """
    return per_replica * int(strategy.num_replicas_in_sync)


def _choose(workers: int, gpus: int) -> str:
    if workers > 1:
        return MULTI_WORKER
    return MIRRORED if gpus > 1 else ONE_DEVICE


def _make(tensorflow: Any, kind: str, allow_cpu: bool) -> Any:
    distribute = tensorflow.distribute
    if kind == PARAMETER_SERVER:
        return _parameter_servers(tensorflow, allow_cpu)
    gpus = len(tensorflow.config.get_visible_devices("GPU"))
    if gpus == 0:
        fall_back_to_cpu(TENSORFLOW, allow_cpu)
    if kind == ONE_DEVICE:
        return distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0")
    if kind == MIRRORED:
        return distribute.MirroredStrategy() if gpus else distribute.MirroredStrategy(["/cpu:0"])
    if not tf_config():
        os.environ["TF_CONFIG"] = json.dumps(worker_config(hosts() or ("localhost",), host_number()))
    implementation = distribute.experimental.CommunicationImplementation
    options = distribute.experimental.CommunicationOptions(
        implementation=implementation.NCCL if gpus else implementation.RING
    )
    try:
        made = distribute.MultiWorkerMirroredStrategy(communication_options=options)
    except RuntimeError as error:
        if "program startup" not in str(error):
            raise
        raise RuntimeError(_too_late()) from error
    guard_fit(made, "MultiWorkerMirroredStrategy", _host_count())
    return made


def _parameter_servers(tensorflow: Any, allow_cpu: bool) -> Any:
    if not tf_config():
        os.environ["TF_CONFIG"] = json.dumps(parameter_server_config(hosts(), host_number()))
    config = tf_config()
    task = config.get("task", {})
    if task.get("type") != CHIEF:
        if task.get("type") == "worker" and not tensorflow.config.get_visible_devices("GPU"):
            fall_back_to_cpu(TENSORFLOW, allow_cpu)
        serve(tensorflow, config)
    resolver = tensorflow.distribute.cluster_resolver.TFConfigClusterResolver()
    made = tensorflow.distribute.ParameterServerStrategy(resolver)
    guard_fit(made, "ParameterServerStrategy", _host_count())
    return made


def _too_late() -> str:
    file, line = caller()
    seen = first_use(TENSORFLOW, file, line)
    early = f", and the first use of it above is {seen}" if seen else ""
    return (
        f"strategy() in {place(file, line)} comes too late: several hosts are joined before TensorFlow's first "
        f"operation{early}. Move strategy() to the script's beginning."
    )


def _workers() -> tuple[str, ...]:
    """Those that compute: TensorFlow's workers and chief where it has a cluster, else the job's hosts."""
    cluster = tf_config().get("cluster", {})
    return tuple(cluster.get(CHIEF, ())) + tuple(cluster.get("worker", ())) if cluster else hosts()


def _host_count() -> int:
    return sum(len(addresses) for addresses in tf_config().get("cluster", {}).values())
