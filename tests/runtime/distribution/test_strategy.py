"""`strategy()`: its choice, and real TensorFlow in one process; clusters are in tests/agent/launch/test_tensorflow.py."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from gpuproof.runtime.distribution.strategy import choose_kind
from support.runtime_script import Script


@pytest.mark.slow
def test_one_process_gets_one_device_and_a_clear_error_for_anything_else(script: Script) -> None:
    printed = script(
        """
import tensorflow as tf, gpuproof.runtime as rt
one = rt.strategy(allow_cpu=True)
print(type(one).__name__, one is rt.strategy(allow_cpu=True), rt.global_batch_size(32, one))
tf.constant(1)
try:
    rt.strategy("multi-worker", allow_cpu=True)
except RuntimeError as error:
    print(error)
try:
    rt.strategy("mirrored")
except rt.GpuRequired as error:
    print(error.code)
try:
    rt.strategy("horovod")
except ValueError as error:
    print(error)
""",
        imported="tensorflow",
    )
    assert printed.splitlines() == [
        "OneDeviceStrategy True 32",
        (
            "strategy() in train.py:7 comes too late: several hosts must be joined before TensorFlow's first operation; "
            "the first call above is tf.constant() in train.py:5. Move strategy() to the start of the script."
        ),
        "no-driver",
        "strategy('horovod'): use one of one-device, mirrored, multi-worker, parameter-server",
    ]


PS = {"cluster": {"chief": ["a"], "worker": ["b"], "ps": ["c"]}, "task": {"type": "chief", "index": 0}}
WORKERS = {"cluster": {"worker": ["a", "b"]}, "task": {"type": "worker", "index": 0}}
ALONE = {"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 0}}


@pytest.mark.parametrize(
    ("gpus", "config", "launcher", "processes", "chosen"),
    [
        (0, {}, None, 0, "one-device"),
        (4, {}, "none", 1, "mirrored"),
        (4, {}, "mirrored", 1, "mirrored"),
        (1, {}, "mirrored", 2, "one-device"),
        (1, {}, None, 2, "multi-worker"),
        (1, {}, "torchrun", 2, "multi-worker"),
        (8, {}, "mpi", 8, "multi-worker"),
        (4, WORKERS, "multi_worker_mirrored", 2, "multi-worker"),
        (4, ALONE, "multi_worker_mirrored", 1, "mirrored"),
        (1, PS, "parameter_server", 2, "parameter-server"),
        (4, {}, "parameter_server", 1, "mirrored"),
        (4, {**PS, "task": {"type": "evaluator", "index": 0}}, None, 3, "mirrored"),
    ],
)
def test_the_strategy_follows_from_tf_config_launcher_gpus_and_processes(
    gpus: int, config: dict[str, Any], launcher: str | None, processes: int, chosen: str
) -> None:
    assert choose_kind(None, gpus, config, launcher, processes) == chosen


def test_a_strategy_that_the_script_names_is_used_except_for_an_evaluator() -> None:
    assert choose_kind("multi-worker", 1, PS, "parameter_server", 2) == "multi-worker"
    evaluator = {**PS, "task": {"type": "evaluator", "index": 0}}
    assert choose_kind("parameter-server", 1, evaluator, None, 1) == "one-device"


@pytest.mark.slow
def test_a_port_that_is_in_use_is_named(script: Script) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config = {
            "cluster": {"worker": [f"127.0.0.1:{port}", "127.0.0.1:1"]},
            "task": {"type": "worker", "index": 0},
        }
        code = "import tensorflow, gpuproof.runtime as rt\nrt.strategy(allow_cpu=True)"
        done = script.done(code, imported="tensorflow", TF_CONFIG=json.dumps(config))
    assert done.returncode == 1
    assert f"TensorFlow cannot listen on port {port} of this host" in done.stderr
