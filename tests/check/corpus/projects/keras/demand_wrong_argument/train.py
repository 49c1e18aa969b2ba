import argparse
import os

import numpy as np
import tensorflow as tf


def build_model(hidden):
    inputs = tf.keras.Input((64,))
    x = inputs
    for width in (hidden, hidden // 2):
        x = tf.keras.layers.Dense(width, activation="relu")(x)
        x = tf.keras.layers.BatchNormalization()(x)
    outputs = tf.keras.layers.Dense(1)(x)
    model = tf.keras.Model(inputs, outputs)
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss="mse", metrics=["mae"])
    return model


def load(folder, name):
    data = np.load(os.path.join(folder, name))
    return data["features"].astype("float32"), data["target"].astype("float32")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--train", default=os.environ.get("SM_CHANNEL_TRAIN"))
    parser.add_argument("--model_dir")
    args = parser.parse_args()
    strategy = tf.distribute.MirroredStrategy()
    print("replicas:", strategy.num_replicas_in_sync)
    batch = 256 * strategy.num_replicas_in_sync
    x, y = load(args.train, "train.npz")
    x_test, y_test = load(args.train, "test.npz")
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(batch).prefetch(tf.data.AUTOTUNE)
    with strategy.scope():
        model = build_model(args.hidden)
    model.fit(ds, epochs=args.epochs, verbose=2)
    predictions = model.predict(x_test, batch_size=4096, verbose=0)[:, 0]
    print("test mae", np.abs(predictions - y_test).mean())
    model.export(os.path.join(os.environ["SM_MODEL_DIR"], "1"))


if __name__ == "__main__":
    main()
