"""Trains a small convolutional network on handwritten digits. Plain Keras: nothing here knows of Tarmac."""

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # the same numbers on every CPU

import keras
import tensorflow as tf
from digits import split


def main() -> None:
    arguments = parse_arguments()
    keras.utils.set_random_seed(arguments.seed)
    gpus = tf.config.list_physical_devices("GPU")
    print(f"TensorFlow {tf.__version__} sees {len(gpus)} GPU(s)", flush=True)

    train_images, test_images, train_labels, test_labels = split()
    model = build(arguments.learning_rate)
    model.fit(
        train_images,
        train_labels,
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        validation_data=(test_images, test_labels),
        callbacks=callbacks(Path(arguments.checkpoint_dir)),
        verbose=2,
    )

    model_dir = Path(arguments.model_dir)
    model_dir.mkdir(parents=True, exist_ok=True)
    model.save(model_dir / "model.keras")
    # TensorFlow Serving wants a SavedModel in a folder with a number for its name.
    model.export(model_dir / "1", verbose=False)
    print(f"saved to {model_dir}")


def build(learning_rate: float) -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def callbacks(checkpoint_dir: Path) -> list[keras.callbacks.Callback]:
    """Where there is a folder for checkpoints, an attempt that was cut short goes on where it stopped."""
    if not checkpoint_dir.is_dir():
        return []
    return [keras.callbacks.BackupAndRestore(checkpoint_dir / "backup")]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model-dir", default=os.environ.get("SM_MODEL_DIR", "model"))
    parser.add_argument("--checkpoint-dir", default="/opt/ml/checkpoints")
    return parser.parse_args()


if __name__ == "__main__":
    main()
