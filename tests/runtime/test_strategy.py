"""`strategy()` with real TensorFlow, alone and in clusters of local processes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.ports import free_ports
from support.runtime_script import Script

pytestmark = pytest.mark.slow

WORKER = """
import json, os
import tensorflow as tf, gpuproof.runtime as rt
strategy = rt.strategy(allow_cpu=True)
import keras, numpy as np
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.01)
    model.compile(optimizer, "mse")
x = np.ones((32, 4), "float32")
y = x.sum(1, keepdims=True)
said = {"batch": rt.global_batch_size(8, strategy), "first": rt.is_first_rank()}
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(said["batch"])
for method in ("fit", "evaluate"):
    try:
        getattr(model, method)(data, verbose=0)
    except rt.KerasFitUnsupported as error:
        said[method] = str(error)
@tf.function
def step(batch):
    def one(batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss
    return strategy.reduce("MEAN", strategy.run(one, args=(batch,)), axis=None)
losses = [float(step(batch)) for batch in strategy.experimental_distribute_dataset(data.repeat(3))]
said["learnt"] = losses[-1] < losses[0]
kept = rt.checkpoint(model=model, folder=os.environ["PLACE"] + "/checkpoints")
kept.save()
rt.save(model, os.environ["PLACE"] + "/model")
print(json.dumps(said))
"""
COORDINATED = """
import json, os
import tensorflow as tf, gpuproof.runtime as rt
strategy = rt.strategy("parameter-server", allow_cpu=True)
with strategy.scope():
    counter = tf.Variable(0.0)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
for _ in range(5):
    coordinator.schedule(tf.function(lambda: counter.assign_add(1.0)))
coordinator.join()
print(json.dumps({"counted": float(counter.numpy()), "first": rt.is_first_rank()}))
"""


def cluster(folder: Path, code: str, kinds: list[str]) -> list[dict[str, Any]]:
    """Runs one process for each task; what each printed."""
    (folder / "train.py").write_text(code)
    addresses: dict[str, list[str]] = {}
    tasks: list[tuple[str, int]] = []
    for kind, port in zip(kinds, free_ports(len(kinds)), strict=True):
        tasks.append((kind, len(addresses.setdefault(kind, []))))
        addresses[kind].append(f"127.0.0.1:{port}")
    started: list[subprocess.Popen[str]] = []
    for number, (kind, index) in enumerate(tasks):
        config = {"cluster": addresses, "task": {"type": kind, "index": index}}
        place = folder / str(number)
        place.mkdir()
        environment = {
            **os.environ,
            "TF_CONFIG": json.dumps(config),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PLACE": str(place),
        }
        started.append(
            subprocess.Popen(
                [sys.executable, "train.py"],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        ended = [process.communicate(timeout=300) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0] * len(started), "\n".join(
        errors for _, errors in ended
    )
    return [json.loads(output) if output else {} for output, _ in ended]


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("workers")
    return folder, cluster(folder, WORKER, ["worker", "worker"])


@pytest.mark.xdist_group("two-workers")
def test_two_workers_learn_together(two_workers: tuple[Path, list[dict[str, Any]]]) -> None:
    printed = two_workers[1]
    assert [one["learnt"] for one in printed] == [True, True]
    assert [one["batch"] for one in printed] == [16, 16]
    assert [one["first"] for one in printed] == [True, False]


@pytest.mark.xdist_group("two-workers")
def test_keras_3s_fit_is_refused_with_the_two_ways_out(
    two_workers: tuple[Path, list[dict[str, Any]]],
) -> None:
    for one, method in itertools.product(two_workers[1], ("fit", "evaluate")):
        assert f"Keras 3's model.{method} does not work under MultiWorkerMirroredStrategy" in one[method]
        assert "TF_USE_LEGACY_KERAS=1" in one[method]
        assert "strategy.run(step)" in one[method]


@pytest.mark.xdist_group("two-workers")
def test_only_the_first_worker_saves(two_workers: tuple[Path, list[dict[str, Any]]]) -> None:
    folder = two_workers[0]
    assert sorted(path.name for path in (folder / "0" / "model").iterdir()) == ["1", "model.keras"]
    assert [path.name for path in (folder / "0" / "checkpoints").iterdir()] == ["checkpoint-00000001"]
    assert not (folder / "1" / "model").exists()
    assert list((folder / "1" / "checkpoints").iterdir()) == []


def test_a_chief_counts_on_a_worker_through_a_parameter_server(tmp_path: Path) -> None:
    chief, worker, server = cluster(tmp_path, COORDINATED, ["chief", "worker", "ps"])
    assert chief == {"counted": 5.0, "first": True}
    assert worker == server == {}


def test_one_process_gets_one_device_and_a_clear_error_for_anything_else(script: Script) -> None:
    printed = script("""
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
""")
    assert printed.splitlines() == [
        "OneDeviceStrategy True 32",
        (
            "strategy() in train.py:7 comes too late: several hosts must be joined before TensorFlow's first operation; "
            "the first call above is tf.constant() in train.py:5. Move strategy() to the start of the script."
        ),
        "no-driver",
        "strategy('horovod'): use one of one-device, mirrored, multi-worker, parameter-server",
    ]
