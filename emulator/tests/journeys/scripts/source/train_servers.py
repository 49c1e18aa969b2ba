"""Learns y = 2x + 1 with TensorFlow 2 and the parameter servers that SageMaker's `TF_CONFIG` names.

With `--strategy runtime`, `gpuproof.runtime` creates the strategy; with `--strategy own`, the script does, as in TensorFlow's tutorial.
"""

import argparse
import json
import os
import socket
import time

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--strategy", choices=("runtime", "own"), default="runtime")
parser.add_argument("--steps", type=int, default=60)
arguments, _ = parser.parse_known_args()


def own_strategy() -> tf.distribute.Strategy:
    """TensorFlow 2 accepts no `master`: SageMaker's first task becomes the chief, and the workers serve until it has ended."""
    config = json.loads(os.environ["TF_CONFIG"])
    config["cluster"]["chief"] = config["cluster"].pop("master")
    if config["task"]["type"] == "master":
        config["task"]["type"] = "chief"
    os.environ["TF_CONFIG"] = json.dumps(config)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "worker":
        tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        serve_until_gone(config["cluster"]["chief"][0])
    return tf.distribute.ParameterServerStrategy(resolver)


def serve_until_gone(chief: str) -> None:
    """`Server.join` never returns, and the job would not end: exit when the chief has."""
    host, _, port = chief.rpartition(":")
    seen = False
    while True:
        time.sleep(1)
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            seen = True
        except OSError:
            if seen:
                os._exit(0)


given = json.loads(os.environ["TF_CONFIG"])
print(json.dumps({"host": os.environ["SM_CURRENT_HOST"], "given": given}), flush=True)
if arguments.strategy == "own":
    strategy = own_strategy()
else:
    import gpuproof.runtime as rt

    strategy = rt.strategy(allow_cpu=True)

with strategy.scope():
    slope, intercept = tf.Variable(0.0), tf.Variable(0.0)
    optimizer = tf.keras.optimizers.SGD(0.2)
    optimizer.build([slope, intercept])
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


def examples() -> tf.data.Dataset:
    x = tf.random.stateless_uniform([64], seed=(1, 2), minval=-1.0)
    return tf.data.Dataset.from_tensor_slices((x, 2 * x + 1)).repeat().batch(16)


@tf.function
def step(iterator: tf.data.Iterator) -> tf.Tensor:
    def replica(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((slope * x + intercept - y) ** 2)
        gradients = tape.gradient(loss, [slope, intercept])
        optimizer.apply_gradients(zip(gradients, [slope, intercept], strict=True))
        return loss

    return strategy.run(replica, next(iterator))


iterator = iter(coordinator.create_per_worker_dataset(examples))
losses = [coordinator.schedule(step, args=(iterator,)) for _ in range(arguments.steps)]
coordinator.join()
report = {
    "slope": round(float(slope.numpy()), 2),
    "intercept": round(float(intercept.numpy()), 2),
    "losses": [float(loss) for loss in coordinator.fetch(losses)],
    "servers": [variable.device.partition("/device")[0] for variable in (slope, intercept)],
}
print(json.dumps(report), flush=True)
with open(os.path.join(os.environ["SM_MODEL_DIR"], "weights.json"), "w") as file:
    json.dump([report["slope"], report["intercept"]], file)
