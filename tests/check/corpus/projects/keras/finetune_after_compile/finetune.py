"""Two-stage transfer learning: first the head, then the last blocks."""
import argparse

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

IMG = (240, 240)


def load(folder, subset, batch):
    ds = keras.utils.image_dataset_from_directory(
        folder, validation_split=0.15, subset=subset, seed=3, image_size=IMG, batch_size=batch, label_mode="categorical"
    )
    return ds, ds.class_names


def build(classes):
    base = keras.applications.EfficientNetB1(include_top=False, input_shape=(*IMG, 3), weights="imagenet")
    base.trainable = False
    inputs = keras.Input((*IMG, 3))
    x = layers.RandomFlip("horizontal")(inputs)
    x = base(x, training=False)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.2)(x)
    return keras.Model(inputs, layers.Dense(classes, activation="softmax")(x)), base


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--fine-epochs", type=int, default=15)
    args = parser.parse_args()
    train, names = load(args.folder, "training", 32)
    valid, _ = load(args.folder, "validation", 32)
    train, valid = train.prefetch(tf.data.AUTOTUNE), valid.prefetch(tf.data.AUTOTUNE)

    model, base = build(len(names))
    model.compile(keras.optimizers.Adam(1e-3), "categorical_crossentropy", metrics=["accuracy"])
    callbacks = [keras.callbacks.EarlyStopping(monitor="val_acc", patience=3, restore_best_weights=True)]
    model.fit(train, validation_data=valid, epochs=args.epochs, callbacks=callbacks)

    base.trainable = True
    for layer in base.layers[:-30]:
        layer.trainable = False
    model.fit(train, validation_data=valid, epochs=args.fine_epochs)
    model.save("classifier.keras")


if __name__ == "__main__":
    main()
