import argparse

import keras
import tensorflow as tf


def make_dataset(x, y, batch_size, training):
    ds = tf.data.Dataset.from_tensor_slices((x[..., None].astype("float32") / 255.0, y))
    if training:
        ds = ds.shuffle(len(x))
    return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def make_model():
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dropout(0.4),
            keras.layers.Dense(10),
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=512)
    args = parser.parse_args()
    (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
    model = make_model()
    model.compile(
        optimizer="adam",
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.fit(
        make_dataset(x_train, y_train, args.batch_size, True),
        validation_data=make_dataset(x_test, y_test, args.batch_size, False),
        epochs=args.epochs,
    )
    model.export("out/mnist_model")  # a SavedModel folder for serving
    model.save("out/mnist.keras")
