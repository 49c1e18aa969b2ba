"""Horovod with Keras: one GPU a rank, scaled rate, broadcast, and files by rank 0 alone."""

import argparse
import os

import horovod.tensorflow.keras as hvd
import tensorflow as tf


def pipeline(pattern, batch_size, rank, size):
    files = tf.data.Dataset.list_files(pattern, shuffle=False).shard(size, rank)
    spec = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }

    def decode(record):
        row = tf.io.parse_single_example(record, spec)
        image = tf.image.resize(tf.io.decode_jpeg(row["image"], channels=3), (224, 224))
        return image, row["label"]

    return (
        tf.data.TFRecordDataset(files, num_parallel_reads=4)
        .shuffle(4096)
        .repeat()
        .map(decode, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(batch_size)
        .prefetch(tf.data.AUTOTUNE)
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=2000)
    args, _ = parser.parse_known_args()
    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    train = pipeline("/data/train/*.tfrecord", args.batch_size, hvd.rank(), hvd.size())
    model = tf.keras.applications.EfficientNetB0(weights=None, classes=200)
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01 * hvd.size(), momentum=0.9))
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.01 * hvd.size(), warmup_epochs=3),
    ]
    if hvd.rank() == 0:
        callbacks.append(tf.keras.callbacks.ModelCheckpoint("/data/out/weights.{epoch:02d}.h5"))
    model.fit(
        train,
        epochs=args.epochs,
        steps_per_epoch=args.steps // hvd.size(),
        callbacks=callbacks,
        verbose=1 if hvd.rank() == 0 else 0,
    )
    if hvd.rank() == 0:
        model.save(os.path.join("/data/out", "final.h5"))


if __name__ == "__main__":
    main()
