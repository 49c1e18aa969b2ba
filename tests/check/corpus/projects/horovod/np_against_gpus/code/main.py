import argparse
import os

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from radar import windows
from tensorflow.keras import layers


def network():
    past = layers.Input((128, 128, 6))
    x = layers.Conv2D(48, 3, padding="same", activation="relu")(past)
    x = layers.Conv2D(48, 3, padding="same", activation="relu", dilation_rate=2)(x)
    x = layers.Conv2D(48, 3, padding="same", activation="relu", dilation_rate=4)(x)
    return tf.keras.Model(past, layers.Conv2D(1, 1)(x))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16)
    args, _ = parser.parse_known_args()
    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    train = windows(os.environ["SM_CHANNEL_TRAIN"], args.batch_size, hvd.rank(), hvd.size())
    model = network()
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(5e-4 * hvd.size()))
    model.compile(optimizer=optimizer, loss="mse")
    model.fit(
        train,
        epochs=args.epochs,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
        verbose=2 if hvd.rank() == 0 else 0,
    )
    model.save("/opt/ml/model/1")
