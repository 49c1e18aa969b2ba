"""MirroredStrategy with a global batch size."""

import tensorflow as tf
import tensorflow_datasets as tfds

strategy = tf.distribute.MirroredStrategy()
print("Number of devices: {}".format(strategy.num_replicas_in_sync))
datasets, info = tfds.load(name="mnist", with_info=True, as_supervised=True)
BATCH_SIZE = 64 * strategy.num_replicas_in_sync


def scale(image, label):
    return tf.cast(image, tf.float32) / 255, label


train = datasets["train"].map(scale, num_parallel_calls=tf.data.AUTOTUNE).cache().shuffle(10000)
train = train.batch(BATCH_SIZE).prefetch(tf.data.AUTOTUNE)
with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.layers.Flatten(input_shape=(28, 28, 1)), tf.keras.layers.Dense(64, activation="relu")]
        + [tf.keras.layers.Dense(10)]
    )
    model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.Adam(),
        metrics=["accuracy"],
    )


def decay(epoch):
    return 1e-3 if epoch < 3 else 1e-4


callbacks = [tf.keras.callbacks.LearningRateScheduler(decay)]
model.fit(train, epochs=12, callbacks=callbacks)
