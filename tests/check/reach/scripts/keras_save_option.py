"""Keras with a command line; saving is off by default."""

import argparse

import tensorflow as tf


def build(units):
    return tf.keras.Sequential([tf.keras.Input((32,)), tf.keras.layers.Dense(units), tf.keras.layers.Dense(1)])


def main(args):
    model = build(args.units)
    model.compile(optimizer="adam", loss="mse")
    x, y = tf.random.normal((1000, 32)), tf.random.normal((1000, 1))
    model.fit(x, y, batch_size=args.batch_size, epochs=args.epochs)
    if args.export:
        model.save("trained_model.h5")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--export", default=False, action="store_true")
    main(parser.parse_args())
