"""Trains a small convolutional network on handwritten digits, with Keras."""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # the same numbers on every CPU

import keras
import tensorflow as tf
from digits import split

import gpuproof.runtime as rt


def main() -> None:
    arguments = parse_arguments()
    rt.setup(seed=arguments.seed, mixed_precision="auto")
    # Without allow_cpu, a machine without a usable GPU is an error; this example also runs on a laptop.
    device = rt.device(allow_cpu=True)
    print(f"TensorFlow {tf.__version__} trains on {device}", flush=True)

    train_images, test_images, train_labels, test_labels = split()
    model = build(arguments.learning_rate)
    # Resumes an interrupted attempt.
    checkpoint = rt.checkpoint(model=model)
    model.fit(
        train_images,
        train_labels,
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        initial_epoch=checkpoint.epoch,
        validation_data=(test_images, test_labels),
        callbacks=[checkpoint.callback()],
        verbose=2,
    )
    print(f"saved to {rt.save(model)}")
    checkpoint.clear()


def build(learning_rate: float) -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(10, dtype="float32"),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
