import argparse

import keras
import numpy as np
import pandas as pd
import tensorflow as tf


def windows(values, length, horizon, batch_size, shuffle):
    ds = keras.utils.timeseries_dataset_from_array(
        values[:-horizon], values[length + horizon - 1 :, 0], length, batch_size=batch_size, shuffle=shuffle
    )
    return ds.cache().prefetch(tf.data.AUTOTUNE)


def build(length, features):
    inputs = keras.Input((length, features))
    x = keras.layers.LSTM(64, return_sequences=True)(inputs)
    x = keras.layers.MultiHeadAttention(4, 16)(x, x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, keras.layers.Dense(1)(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("csv")
    parser.add_argument("--length", type=int, default=96)
    parser.add_argument("--horizon", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=40)
    args = parser.parse_args()
    frame = pd.read_csv(args.csv, index_col="time", parse_dates=True)
    values = frame.to_numpy("float32")
    split = int(0.8 * len(values))
    mean, std = values[:split].mean(0), values[:split].std(0)
    values = (values - mean) / std
    train = windows(values[:split], args.length, args.horizon, 256, True)
    valid = windows(values[split:], args.length, args.horizon, 256, False)
    model = build(args.length, values.shape[1])
    model.compile(keras.optimizers.Adam(1e-3), keras.losses.Huber(), metrics=[keras.metrics.MeanAbsoluteError(name="mae")])
    stop = keras.callbacks.EarlyStopping("val_mae", mode="min", patience=5, restore_best_weights=True)
    model.fit(train, validation_data=valid, epochs=args.epochs, callbacks=[stop])
    np.savez("scale.npz", mean=mean, std=std)
    model.save("forecast.keras")


if __name__ == "__main__":
    main()
