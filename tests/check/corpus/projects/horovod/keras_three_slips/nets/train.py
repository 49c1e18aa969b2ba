import horovod.tensorflow.keras as hvd
import tensorflow as tf
import tensorflow_datasets as tfds

from nets.small import small_net


def prepare(row):
    return tf.image.resize(tf.cast(row["image"], tf.float32) / 255, (128, 128)), row["label"]


def dataset():
    rows = tfds.load("beans", split="train", data_dir="/data/tfds")
    return (
        rows.shard(hvd.size(), hvd.rank())
        .shuffle(1024)
        .map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(64)
    )


def main():
    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    tf.config.set_visible_devices(gpus[0], "GPU")
    model = small_net(classes=3)
    optimizer = tf.keras.optimizers.Adam(1e-3 * hvd.size())
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(
        dataset(),
        epochs=40,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()],
        verbose=1 if hvd.rank() == 0 else 0,
    )
    if hvd.rank() == 0:
        model.save("/data/out/beans.h5")


if __name__ == "__main__":
    main()
