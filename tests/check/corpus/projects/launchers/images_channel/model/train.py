import argparse
import os

import tensorflow as tf


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--classes", type=int, required=True)
    args, _ = parser.parse_known_args()
    return args


def main():
    args = parse()
    ds = tf.keras.utils.image_dataset_from_directory(os.environ["SM_CHANNEL_IMAGES"], image_size=(128, 128), batch_size=64)
    ds = ds.prefetch(tf.data.AUTOTUNE)
    model = tf.keras.applications.MobileNetV3Small(weights=None, classes=args.classes, input_shape=(128, 128, 3))
    model.compile(tf.keras.optimizers.Adam(args.lr), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(ds, epochs=args.epochs, verbose=2)
    model.export(os.path.join(os.environ["SM_MODEL_DIR"], "1"))


if __name__ == "__main__":
    main()
