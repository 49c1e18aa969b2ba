"""Denoising autoencoder for log-mel spectrograms."""
import argparse
import pathlib

import keras
import numpy as np
import tensorflow as tf


def spectrograms(folder, batch_size):
    files = sorted(str(p) for p in pathlib.Path(folder).glob("*.npy"))

    def load(path):
        def read(p):
            return np.load(p.decode()).astype("float32")

        spec = tf.numpy_function(read, [path], tf.float32)
        spec = tf.ensure_shape(spec, (128, 128))[..., None]
        return spec + tf.random.normal(tf.shape(spec), stddev=0.1), spec

    ds = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files))
    return ds.map(load).batch(batch_size).prefetch(tf.data.AUTOTUNE)


def autoencoder():
    inputs = keras.Input((128, 128, 1))
    x = inputs
    for filters in (32, 64, 128):
        x = keras.layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x)
    for filters in (128, 64, 32):
        x = keras.layers.Conv2DTranspose(filters, 3, strides=2, padding="same", activation="relu")(x)
    return keras.Model(inputs, keras.layers.Conv2D(1, 3, padding="same")(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    model = autoencoder()
    model.compile(keras.optimizers.Adam(1e-3), "mse")
    callbacks = [
        keras.callbacks.ModelCheckpoint("ckpt/{epoch:03d}.weights.h5", save_weights_only=True),
        keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=3),
    ]
    model.fit(spectrograms(args.folder, args.batch_size), epochs=args.epochs, callbacks=callbacks)
    model.save("denoiser.keras")


if __name__ == "__main__":
    main()
