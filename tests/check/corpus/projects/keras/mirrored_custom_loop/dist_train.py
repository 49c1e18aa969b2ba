import argparse
import os

import numpy as np
import tensorflow as tf

GLOBAL_BATCH = 1024
strategy = tf.distribute.MirroredStrategy()
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")


def dataset(folder):
    data = np.load(os.path.join(folder, "data.npz"))
    ds = tf.data.Dataset.from_tensor_slices((data["x"].astype("float32"), data["y"]))
    ds = ds.shuffle(100_000).batch(GLOBAL_BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    return strategy.experimental_distribute_dataset(ds)


def network():
    return tf.keras.Sequential(
        [tf.keras.Input((300,)), tf.keras.layers.Dense(1024, "relu"), tf.keras.layers.Dense(1024, "relu"),
         tf.keras.layers.Dense(50)]
    )


with strategy.scope():
    model = network()
optimizer = tf.keras.optimizers.Adam(1e-3)


def compute_loss(y, logits):
    return tf.reduce_mean(loss_fn(y, logits))


def replica_step(inputs):
    x, y = inputs
    with tf.GradientTape() as tape:
        loss = compute_loss(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


@tf.function
def train_step(inputs):
    losses = strategy.run(replica_step, args=(inputs,))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--model_dir")
    args = parser.parse_args()
    batches = dataset(os.environ["SM_CHANNEL_TRAIN"])
    for epoch in range(args.epochs):
        total, steps = 0.0, 0
        for inputs in batches:
            total += train_step(inputs)
            steps += 1
        print(f"epoch {epoch}: loss {float(total) / steps:.4f}")
    model.export(os.path.join(os.environ["SM_MODEL_DIR"], "1"))


if __name__ == "__main__":
    main()
