import argparse

import tensorflow as tf

from features import FeatureSource

parser = argparse.ArgumentParser()
parser.add_argument("root")
parser.add_argument("--activities", type=int, default=8)
parser.add_argument("--epochs", type=int, default=30)
args = parser.parse_args()

source = FeatureSource(args.root)
model = tf.keras.Sequential(
    [
        tf.keras.Input((256, 6)),
        tf.keras.layers.Conv1D(64, 7, activation="relu"),
        tf.keras.layers.MaxPooling1D(4),
        tf.keras.layers.LSTM(64),
        tf.keras.layers.Dense(args.activities, activation="softmax"),
    ]
)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(source.dataset("train"), validation_data=source.dataset("valid"), epochs=args.epochs)
model.save("activity.keras")
