import argparse

import pandas as pd
import tensorflow as tf
from tensorflow.keras import layers

NUMBERS = ["age", "tenure", "calls", "balance"]


def dataset(frame, batch, training):
    rows = tf.data.Dataset.from_tensor_slices((frame[NUMBERS].to_numpy("float32"), frame["left"].to_numpy()))
    if training:
        rows = rows.shuffle(len(frame))
    return rows.batch(batch).prefetch(tf.data.AUTOTUNE)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--batch", type=int, default=2048)
    args = parser.parse_args()
    frame = pd.read_parquet("/data/customers.parquet").sample(frac=1, random_state=9)
    cut = int(0.85 * len(frame))
    normalize = layers.Normalization()
    normalize.adapt(frame[NUMBERS][:cut].to_numpy("float32"))
    model = tf.keras.Sequential(
        [
            layers.Input((len(NUMBERS),)),
            normalize,
            layers.Dense(256, activation="relu"),
            layers.Dropout(0.2),
            layers.Dense(256, activation="relu"),
            layers.Dense(1),
        ]
    )
    model.compile(
        optimizer="adam",
        loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[tf.keras.metrics.AUC(from_logits=True, name="auc")],
    )
    model.fit(
        dataset(frame[:cut], args.batch, True),
        validation_data=dataset(frame[cut:], args.batch, False),
        epochs=args.epochs,
        callbacks=[tf.keras.callbacks.EarlyStopping("val_auc", mode="max", patience=4)],
    )
    model.save("/out/churn.keras")


if __name__ == "__main__":
    main()
