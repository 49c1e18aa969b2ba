"""Hyperparameter search on one machine with KerasTuner; trials run one after another."""
import argparse

import keras
import keras_tuner as kt
import tensorflow as tf


def datasets(batch_size):
    (x, y), (x_test, y_test) = keras.datasets.cifar10.load_data()
    x, x_val, y, y_val = x[5000:], x[:5000], y[5000:], y[:5000]

    def make(images, labels, training=False):
        ds = tf.data.Dataset.from_tensor_slices((images, labels))
        if training:
            ds = ds.shuffle(10_000)
        ds = ds.map(lambda i, l: (tf.cast(i, tf.float32) / 255.0, l), num_parallel_calls=tf.data.AUTOTUNE)
        return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)

    return make(x, y, True), make(x_val, y_val), make(x_test, y_test)


def build_model(hp):
    inputs = keras.Input((32, 32, 3))
    x = inputs
    for i in range(hp.Int("blocks", 2, 4)):
        x = keras.layers.Conv2D(hp.Choice(f"filters_{i}", [32, 64, 128]), 3, padding="same", activation="relu")(x)
        x = keras.layers.BatchNormalization()(x)
        x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.Flatten()(x)
    x = keras.layers.Dropout(hp.Float("dropout", 0.1, 0.5))(x)
    model = keras.Model(inputs, keras.layers.Dense(10)(x))
    model.compile(
        keras.optimizers.Adam(hp.Float("lr", 1e-4, 1e-2, sampling="log")),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=256)
    args = parser.parse_args()
    train, valid, test = datasets(args.batch_size)
    tuner = kt.Hyperband(build_model, objective="val_accuracy", max_epochs=20, directory="search", project_name="cifar")
    stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=3)
    tuner.search(train, validation_data=valid, epochs=20, callbacks=[stop])
    best = tuner.get_best_models(1)[0]
    print(best.evaluate(test, return_dict=True))
    best.save("best.keras")
