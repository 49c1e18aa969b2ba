import pandas as pd
import tensorflow as tf

WINDOW = 56


def dataset(frame, batch_size=256):
    values = frame.sort_values("day").pivot(index="day", columns="shop", values="sales").fillna(0).to_numpy("float32")
    rows = tf.keras.utils.timeseries_dataset_from_array(
        values[:-1], values[WINDOW:], sequence_length=WINDOW, batch_size=batch_size, shuffle=True
    )
    return rows.cache().prefetch(tf.data.AUTOTUNE), values.shape[1]


def main():
    rows, shops = dataset(pd.read_csv("/opt/ml/input/data/history/sales.csv"))
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((WINDOW, shops)),
            tf.keras.layers.LSTM(256),
            tf.keras.layers.Dense(shops),
        ]
    )
    model.compile(optimizer="adam", loss="mae")
    model.fit(rows, epochs=40, verbose=2)
    model.save("/opt/ml/model/1")


if __name__ == "__main__":
    main()
