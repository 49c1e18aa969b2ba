import argparse
import os

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from tensorflow import keras


def load(folder):
    data = np.load(os.path.join(folder, "train.npz"))
    return data["images"][..., None].astype("float32") / 255, data["labels"]


def network():
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--model_dir")
    args = parser.parse_args()
    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    x, y = load(os.environ["SM_CHANNEL_TRAIN"])
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank())
    ds = ds.shuffle(10_000).batch(128).prefetch(tf.data.AUTOTUNE)
    opt = hvd.DistributedOptimizer(keras.optimizers.SGD(args.lr * hvd.size(), momentum=0.9))
    model = network()
    model.compile(opt, "sparse_categorical_crossentropy", metrics=["accuracy"])
    callbacks = [hvd.callbacks.MetricAverageCallback()]
    model.fit(ds, epochs=args.epochs, callbacks=callbacks, verbose=2 if hvd.rank() == 0 else 0)
    if hvd.rank() == 0:
        model.save(os.path.join(os.environ["SM_MODEL_DIR"], "1"))


if __name__ == "__main__":
    main()
