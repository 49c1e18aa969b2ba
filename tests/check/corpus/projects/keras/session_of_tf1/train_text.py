import argparse
import os

import tensorflow as tf
from tensorflow.keras import layers


def get_strategy():
    return tf.distribute.MirroredStrategy()


def setup_gpus():
    config = tf.ConfigProto()
    config.gpu_options.allow_growth = True
    tf.compat.v1.keras.backend.set_session(tf.compat.v1.Session(config=config))


def text_dataset(folder, batch):
    ds = tf.keras.utils.text_dataset_from_directory(folder, batch_size=batch, seed=1)
    return ds.prefetch(tf.data.AUTOTUNE)


def build(vectorize):
    return tf.keras.Sequential(
        [
            tf.keras.Input((1,), dtype="string"),
            vectorize,
            layers.Embedding(20000, 128, mask_zero=True),
            layers.Bidirectional(layers.LSTM(64)),
            layers.Dense(64, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(1, activation="sigmoid"),
        ]
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--data", default="aclImdb")
    args = parser.parse_args()
    setup_gpus()
    strategy = get_strategy()
    train = text_dataset(os.path.join(args.data, "train"), 64 * strategy.num_replicas_in_sync)
    test = text_dataset(os.path.join(args.data, "test"), 256)
    vectorize = layers.TextVectorization(20000, output_sequence_length=400)
    vectorize.adapt(train.map(lambda text, label: text, num_parallel_calls=tf.data.AUTOTUNE))
    with strategy.scope():
        model = build(vectorize)
        model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    model.fit(train, validation_data=test, epochs=args.epochs)
    model.save_weights("imdb.weights.h5")


if __name__ == "__main__":
    main()
