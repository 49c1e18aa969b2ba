import argparse
import os

import tensorflow as tf
from tensorflow import keras


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--train", default=os.environ.get("SM_CHANNEL_TRAIN"))
    parser.add_argument("--model_dir", help="passed by the estimator, unused")
    return parser.parse_args()


def datasets(folder, batch_size):
    options = dict(validation_split=0.2, seed=17, image_size=(224, 224), batch_size=batch_size)
    train_ds = keras.utils.image_dataset_from_directory(folder, subset="training", **options)
    val_ds = keras.utils.image_dataset_from_directory(folder, subset="validation", **options)
    return train_ds, val_ds, len(train_ds.class_names)


def build(classes):
    base = keras.applications.EfficientNetV2B0(include_top=False, weights="imagenet", pooling="avg")
    base.trainable = False
    inputs = keras.Input((224, 224, 3))
    x = base(inputs, training=False)
    x = keras.layers.Dropout(0.3)(x)
    outputs = keras.layers.Dense(classes, activation="softmax")(x)
    return keras.Model(inputs, outputs)


def main():
    args = parse_args()
    train_ds, val_ds, classes = datasets(args.train, args.batch_size)
    augment = keras.Sequential([keras.layers.RandomFlip("horizontal"), keras.layers.RandomRotation(0.1)])
    train_ds = train_ds.map(
        lambda x, y: (augment(x, training=True), y), num_parallel_calls=tf.data.AUTOTUNE
    ).prefetch(tf.data.AUTOTUNE)
    val_ds = val_ds.prefetch(tf.data.AUTOTUNE)
    model = build(classes)
    model.compile(
        optimizer=keras.optimizers.Adam(args.learning_rate),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.fit(train_ds, validation_data=val_ds, epochs=args.epochs)
    model.save(os.path.join(os.environ["SM_MODEL_DIR"], "1"))


if __name__ == "__main__":
    main()
