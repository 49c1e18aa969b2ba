"""A training loop written out with GradientTape."""

import time

import numpy as np
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
if gpus:
    try:
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError as e:
        print(e)
(x, y), _ = tf.keras.datasets.mnist.load_data()
x = np.reshape(x, (-1, 784)).astype("float32") / 255
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1024).batch(64).prefetch(tf.data.AUTOTUNE)
inputs = tf.keras.Input(shape=(784,))
outputs = tf.keras.layers.Dense(10)(tf.keras.layers.Dense(64, activation="relu")(inputs))
model = tf.keras.Model(inputs, outputs)
optimizer = tf.keras.optimizers.Adam(learning_rate=1e-3)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
metric = tf.keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = loss_fn(y, logits)
    grads = tape.gradient(loss, model.trainable_weights)
    optimizer.apply_gradients(zip(grads, model.trainable_weights))
    metric.update_state(y, logits)
    return loss


for epoch in range(2):
    start = time.time()
    for step, (xb, yb) in enumerate(dataset):
        loss = train_step(xb, yb)
        if step % 200 == 0:
            print(step, float(loss.numpy()))
    print(f"epoch {epoch}: {metric.result():.3f} in {time.time() - start:.1f} s")
    metric.reset_state()
