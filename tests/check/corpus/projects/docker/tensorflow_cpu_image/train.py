import argparse

import tensorflow as tf
import tensorflow_datasets as tfds

SIZE = 192


def prepare(row):
    image = tf.image.resize(row["image"], (SIZE, SIZE)) / 255.0
    return image, row["label"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=128)
    args = parser.parse_args()
    if not tf.config.list_physical_devices("GPU"):
        raise SystemExit("no GPU")
    train, info = tfds.load("plant_village", split="train[:90%]", with_info=True, shuffle_files=True)
    val = tfds.load("plant_village", split="train[90%:]")
    train = (
        train.map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
        .shuffle(2000)
        .batch(args.batch_size)
        .prefetch(tf.data.AUTOTUNE)
    )
    val = val.map(prepare, num_parallel_calls=tf.data.AUTOTUNE).batch(args.batch_size).prefetch(tf.data.AUTOTUNE)
    model = tf.keras.applications.MobileNetV3Small(
        (SIZE, SIZE, 3), weights=None, classes=info.features["label"].num_classes, include_preprocessing=False
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(train, validation_data=val, epochs=args.epochs)
    model.save("/out/plants.keras")


if __name__ == "__main__":
    main()
