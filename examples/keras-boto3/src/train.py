"""Trains a Keras 3 model on all GPUs of all instances of a SageMaker job; without a job, on this machine."""

import argparse
import json
import os
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

DATA = Path(os.environ.get("SM_CHANNEL_TRAINING", "data"))
MODEL = Path(os.environ.get("SM_MODEL_DIR", "model"))


def main() -> None:
    arguments = parse_arguments()
    cluster = json.loads(os.environ.get("TF_CONFIG", "{}"))  # by SageMaker's toolkit; see submit.py
    several = len(cluster.get("cluster", {}).get("worker", ())) > 1
    # Before any other operation of TensorFlow: the workers connect here.
    strategy = (tf.distribute.MultiWorkerMirroredStrategy if several else tf.distribute.MirroredStrategy)()
    use_bfloat16()
    batch_size = arguments.batch_size * strategy.num_replicas_in_sync
    print(f"{strategy.num_replicas_in_sync} replicas, {batch_size} images a step", flush=True)

    images, labels, test_images, test_labels = load()
    with strategy.scope():
        model = build()
        optimizer = keras.optimizers.Adam(arguments.learning_rate)
    batches = strategy.experimental_distribute_dataset(dataset(images, labels, batch_size))

    # The `fit` of Keras 3 fails under MultiWorkerMirroredStrategy; this loop works under every strategy.
    def step(inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        batch, targets = inputs
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(targets, model(batch, training=True), True)
            loss = tf.reduce_sum(losses) / batch_size  # of all replicas, whose gradients are added
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    @tf.function
    def train_step(inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=(inputs,)), axis=None)

    for epoch in range(1, arguments.epochs + 1):
        losses = [train_step(inputs) for inputs in batches]
        print(f"epoch {epoch}/{arguments.epochs} loss {float(np.mean(losses)):.4f}", flush=True)

    if cluster.get("task", {}).get("index", 0) == 0:  # every worker has the same weights
        accuracy = float((model(test_images).numpy().argmax(axis=1) == test_labels).mean())
        print(f"val_accuracy {accuracy:.4f}", flush=True)
        # What is not in SM_MODEL_DIR is lost. TensorFlow Serving needs a SavedModel in a folder with a number.
        model.export(MODEL / "1", verbose=False)
        model.save(MODEL / "model.keras")


def use_bfloat16() -> None:
    """Compute in bfloat16 where the GPU can; unlike float16, it needs no loss scaling."""
    gpus = tf.config.list_physical_devices("GPU")
    details = tf.config.experimental.get_device_details(gpus[0]) if gpus else {}
    if details.get("compute_capability", (0, 0)) >= (8, 0):  # A10G, L4 and later; not T4
        keras.mixed_precision.set_global_policy("mixed_bfloat16")


def build() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(10, dtype="float32"),  # logits in float32, whatever the policy
        ]
    )


def dataset(images: np.ndarray, labels: np.ndarray, batch_size: int) -> tf.data.Dataset:
    """Batches of one shape, so that the step is traced once; each worker gets its own images."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images), seed=0)
    return data.batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE).with_options(options)


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images and digits, then held-back ones."""
    with np.load(DATA / "digits.npz") as arrays:
        images, labels = arrays["images"], arrays["labels"]
    return images[360:], labels[360:], images[:360], labels[:360]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32, help="images a step for each GPU")
    parser.add_argument("--learning-rate", type=float, default=0.002)
    return parser.parse_known_args()[0]  # the toolkit adds --model_dir


if __name__ == "__main__":
    main()
