"""`TF_CONFIG`, TensorFlow's description of a cluster, exactly as SageMaker's TensorFlow toolkit builds it.

Source: https://github.com/aws/sagemaker-tensorflow-training-toolkit/blob/tf-2/src/sagemaker_tensorflow_container/training.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

WORKER_PORT = 8890
"""Port of the workers of `MultiWorkerMirroredStrategy`."""
MASTER_PORT = 2222
"""Port of master and workers next to parameter servers."""
SERVER_PORT = 2223
"""Port of the parameter server that runs on every host."""

WORKER = "worker"
PARAMETER_SERVER = "ps"
MASTER = "master"
"""First task of a cluster with parameter servers, under its name in TensorFlow 1."""
CHIEF = "chief"
"""The same task in TensorFlow 2."""
EVALUATOR = "evaluator"

Address = Callable[[str, int], str]
"""Combines a host and a port into an address, such as `algo-1:8890`."""

TfConfig = dict[str, Any]


class TooFewHosts(ValueError):
    """A cluster that has its parameter server on a host of its own requires at least three hosts."""


def worker_config(hosts: Sequence[str], index: int, address: Address) -> TfConfig:
    """One worker on each host, without a chief: worker 0 is the chief."""
    return _config({WORKER: [address(host, WORKER_PORT) for host in hosts]}, WORKER, index)


def parameter_server_config(hosts: Sequence[str], index: int, address: Address) -> TfConfig:
    """The first host as master, the others as workers, and a parameter server next to each of them."""
    cluster = {
        MASTER: [address(hosts[0], MASTER_PORT)],
        PARAMETER_SERVER: [address(host, SERVER_PORT) for host in hosts],
        WORKER: [address(host, MASTER_PORT) for host in hosts[1:]],
    }
    return _config(cluster, WORKER, index - 1) if index else _config(cluster, MASTER, 0)


def separate_server_config(hosts: Sequence[str], index: int, address: Address) -> TfConfig:
    """The first host as chief, the last as the only parameter server, and workers between; not from SageMaker's toolkit.

    For a script that starts the server itself: the toolkit's cluster has two servers on each host.

    Raises:
        TooFewHosts: fewer than three hosts.
    """
    if len(hosts) < 3:
        raise TooFewHosts(
            "a parameter server requires at least three hosts (a chief, workers, a server) without 'distribution: "
            f"parameter_server', but this job has {len(hosts)}: set 'distribution: parameter_server', which requires "
            "instance_count: 2, or use strategy('multi-worker')"
        )
    last = len(hosts) - 1
    everyone = [address(host, WORKER_PORT) for host in hosts]
    cluster = {CHIEF: everyone[:1], WORKER: everyone[1:last], PARAMETER_SERVER: everyone[last:]}
    if index == 0:
        return _config(cluster, CHIEF, 0)
    return _config(cluster, PARAMETER_SERVER, 0) if index == last else _config(cluster, WORKER, index - 1)


def server_task(config: Mapping[str, Any], index: int) -> TfConfig:
    """The configuration of a host's parameter server in the same cluster."""
    return _config(config["cluster"], PARAMETER_SERVER, index)


def with_chief(config: Mapping[str, Any]) -> TfConfig:
    """The same cluster with the task's name in TensorFlow 2, whose `ParameterServerStrategy` rejects `master`."""
    task = config.get("task", {})
    renamed = {CHIEF if name == MASTER else name: value for name, value in config.get("cluster", {}).items()}
    kind = CHIEF if task.get("type") == MASTER else task.get("type")
    return {**config, "cluster": renamed, "task": {**task, "type": kind}}


def _config(cluster: Mapping[str, list[str]], kind: str, index: int) -> TfConfig:
    return {"cluster": dict(cluster), "environment": "cloud", "task": {"index": index, "type": kind}}
