"""Trains one model on one GPU, on all GPUs of a host, or on those of several hosts.

`rt.strategy()` is tf.distribute.OneDeviceStrategy, MirroredStrategy or MultiWorkerMirroredStrategy. The loop is TensorFlow's:
Keras 3's `fit` does not run on several hosts.
"""

import keras
import tensorflow as tf
from sklearn.datasets import load_digits

import gpuproof.runtime as rt

PER_REPLICA = 32
EPOCHS = 5


def main() -> None:
    rt.setup(framework="tensorflow", seed=0)
    strategy = rt.strategy()  # an error where there is no usable GPU, unless the job does not require one
    batch_size = rt.global_batch_size(PER_REPLICA, strategy)
    print(f"{strategy.num_replicas_in_sync} replicas, global batch size {batch_size}", flush=True)
    with strategy.scope():
        model = build()
        optimizer = keras.optimizers.Adam(learning_rate=0.001 * strategy.num_replicas_in_sync)
    step = training_step(strategy, model, optimizer, batch_size)
    data = strategy.experimental_distribute_dataset(digits().batch(batch_size, drop_remainder=True))
    for epoch in range(EPOCHS):
        for batch in data:
            loss = step(*batch)
        print(f"epoch {epoch + 1}/{EPOCHS} loss {float(loss):.4f}", flush=True)
    rt.save(model)  # on the first host


def training_step(
    strategy: tf.distribute.Strategy,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    batch_size: int,
):
    """A function that trains with one global batch and returns its loss."""
    loss_of_each = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def on_each_replica(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = loss_of_each(labels, model(images, training=True))
            # By the global batch size: the gradients of all replicas are added up.
            loss = tf.nn.compute_average_loss(losses, global_batch_size=batch_size)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("sum", strategy.run(on_each_replica, args=(images, labels)), axis=None)

    return step


def digits() -> tf.data.Dataset:
    """1,797 handwritten digits of 8 by 8 pixels, shuffled; each host reads its share."""
    found = load_digits()
    images = (found.images / 16).astype("float32")[..., None]
    return tf.data.Dataset.from_tensor_slices((images, found.target)).shuffle(len(images), seed=0)


def build() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )


if __name__ == "__main__":
    main()
