"""Mixed precision, XLA and a float32 output layer; steps_per_execution keeps the host out of the loop."""
import argparse

import keras
import tensorflow as tf
import tensorflow_datasets as tfds

keras.mixed_precision.set_global_policy("mixed_float16")


def pipeline(split, size, batch):
    ds = tfds.load("food101", split=split, as_supervised=True, shuffle_files=split == "train")

    def prepare(image, label):
        return tf.image.resize_with_pad(image, size, size), label

    if split == "train":
        ds = ds.shuffle(4096)
    return ds.map(prepare, num_parallel_calls=tf.data.AUTOTUNE).batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def build(size):
    base = keras.applications.EfficientNetV2S(include_top=False, input_shape=(size, size, 3), pooling="avg")
    x = keras.layers.Dropout(0.3)(base.output)
    logits = keras.layers.Dense(101, dtype="float32")(x)
    return keras.Model(base.input, logits)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=15)
    args = parser.parse_args()
    train = pipeline("train", args.size, args.batch)
    valid = pipeline("train", args.size, args.batch)
    model = build(args.size)
    model.compile(
        keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(1e-3, args.epochs * 296), weight_decay=1e-4),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(5, name="top5")],
        steps_per_execution=32,
        jit_compile=True,
    )
    model.fit(
        train,
        validation_data=valid,
        epochs=args.epochs,
        callbacks=[
            keras.callbacks.ModelCheckpoint("food.keras", monitor="val_accuracy", save_best_only=True),
            keras.callbacks.EarlyStopping("val_accuracy", patience=4, mode="max"),
            keras.callbacks.TensorBoard("logs", profile_batch=0),
        ],
    )
