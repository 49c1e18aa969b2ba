"""A job on several hosts of SageMaker: every host's agent starts the launcher, and the results of all hosts arrive."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from support.sagemaker_sandbox import SageMakerSandbox

pytestmark = pytest.mark.slow

# The launcher only sets variables, so that no framework has to be imported.
SCRIPT = """
import json, os, pathlib
config = json.loads(os.environ["TF_CONFIG"])
name = f"{os.environ['SM_CURRENT_HOST']}.json"
pathlib.Path(os.environ["SM_MODEL_DIR"], name).write_text(json.dumps(config["task"]))
print(os.environ["SM_DISTRIBUTION_INSTANCE_GROUPS"], sorted(config["cluster"]["worker"]))
"""

# As TensorFlow's guide for custom training loops; Keras 3 has no `fit` for several hosts.
TRAINING = """
import json, os
import tensorflow as tf
import gpuproof.runtime as rt
strategy = rt.strategy(allow_cpu=True)
import keras
with strategy.scope():
    keras.utils.set_random_seed(int(os.environ["SM_CURRENT_HOST"][-1]))  # the first worker's weights are everyone's
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.05)
x = tf.reshape(tf.range(128.0), (32, 4)) / 64
data = tf.data.Dataset.from_tensor_slices((x, tf.reduce_sum(x, 1, keepdims=True)))
data = data.batch(rt.global_batch_size(8, strategy))
@tf.function
def step(batch):
    def replica(batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss
    return strategy.reduce("MEAN", strategy.run(replica, args=(batch,)), axis=None)
losses = [float(step(batch)) for _ in range(4) for batch in strategy.experimental_distribute_dataset(data)]
weights = [float(weight) for variable in model.trainable_variables for weight in variable.numpy().flat]
print(json.dumps({"kind": type(strategy).__name__, "host": os.environ["SM_CURRENT_HOST"], "losses": losses, "weights": weights}))
rt.save(model)
"""


def test_each_host_is_a_worker_and_has_a_verdict(sandbox: SageMakerSandbox, tmp_path: Path) -> None:
    (sandbox.folder / "src" / "train.py").write_text(SCRIPT)
    job = sandbox.training(instance_count=2, distribution="multi_worker_mirrored")
    backend = sandbox.backend()
    run = backend.submit_once(backend.plan(job)).run
    record = run.wait()
    assert record.status == "Completed", record
    log = io.BytesIO()
    run.write_log(log)
    hosts = "['algo-1:8890', 'algo-2:8890']"
    assert log.getvalue().decode().count(f'["homogeneousCluster"] {hosts}') == 2
    assert run.verdict is not None
    assert [host["host"] for host in run.verdict["hosts"]] == ["algo-1", "algo-2"]
    run.pull(tmp_path, extract=True)
    tasks = [json.loads((tmp_path / "model" / f"algo-{number}.json").read_text()) for number in (1, 2)]
    assert tasks == [{"index": 0, "type": "worker"}, {"index": 1, "type": "worker"}]


@pytest.mark.nightly
@pytest.mark.xdist_group("tensorflow-hosts")
def test_two_hosts_train_one_tensorflow_model(sandbox: SageMakerSandbox, tmp_path: Path) -> None:
    (sandbox.folder / "src" / "train.py").write_text(TRAINING)
    job = sandbox.training(
        instance_count=2, distribution="multi_worker_mirrored", environment={"TF_CPP_MIN_LOG_LEVEL": "3"}
    )
    backend = sandbox.backend()
    run = backend.submit_once(backend.plan(job)).run
    record = run.wait()
    log = io.BytesIO()
    run.write_log(log)
    text = log.getvalue().decode()
    assert record.status == "Completed", (record, text)
    first, second = (json.loads(line[line.index("{") :]) for line in text.splitlines() if '"losses"' in line)
    assert {first["host"], second["host"]} == {"algo-1", "algo-2"}
    assert {first["kind"], second["kind"]} == {"CollectiveAllReduceStrategy"}
    assert first["losses"] == second["losses"]
    assert first["weights"] == second["weights"]
    assert first["losses"][-1] < first["losses"][0]
    run.pull(tmp_path, extract=True)
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"1", "model.keras"}
