"""Train a flower classifier on TFRecord files: a MobileNet whose head is trained first, then the whole network."""

import argparse
import os

import keras
import tensorflow as tf
from data import class_names, load_split

IMAGE_SIZE = (224, 224)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--mixed-precision", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--train", default=os.environ.get("SM_CHANNEL_TRAIN", "data/train"))
    parser.add_argument("--validation", default=os.environ.get("SM_CHANNEL_VALIDATION", "data/validation"))
    parser.add_argument("--checkpoints", default="/opt/ml/checkpoints")
    parser.add_argument("--export", default=os.environ.get("SM_MODEL_DIR", "model"))
    arguments, _ = parser.parse_known_args()
    return arguments


def build_model(number_of_classes, dropout):
    backbone = keras.applications.MobileNetV2(input_shape=(*IMAGE_SIZE, 3), include_top=False, pooling="avg")
    backbone.trainable = False
    inputs = keras.Input((*IMAGE_SIZE, 3))
    features = keras.layers.Rescaling(1 / 127.5, offset=-1)(inputs)
    features = backbone(features, training=False)
    features = keras.layers.Dropout(dropout)(features)
    outputs = keras.layers.Dense(number_of_classes, dtype="float32")(features)
    return keras.Model(inputs, outputs), backbone


def compile_model(model, learning_rate):
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate=learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )


def main():
    args = parse_args()
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    if args.mixed_precision:
        keras.mixed_precision.set_global_policy("mixed_float16")

    strategy = tf.distribute.MirroredStrategy()
    batch_size = args.batch_size * strategy.num_replicas_in_sync
    training = load_split(args.train, batch_size, IMAGE_SIZE, shuffle=True)
    validation = load_split(args.validation, batch_size, IMAGE_SIZE, shuffle=False)

    with strategy.scope():
        model, backbone = build_model(len(class_names(args.train)), args.dropout)
        compile_model(model, args.learning_rate)

    callbacks = [
        keras.callbacks.BackupAndRestore(os.path.join(args.checkpoints, "backup")),
        keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True),
        keras.callbacks.ModelCheckpoint(
            os.path.join(args.checkpoints, "best.keras"), save_best_only=True, monitor="val_accuracy"
        ),
    ]
    model.fit(training, validation_data=validation, epochs=args.epochs, callbacks=callbacks, verbose=2)

    with strategy.scope():
        backbone.trainable = True
        compile_model(model, args.learning_rate / 100)
    model.fit(training, validation_data=validation, epochs=3, verbose=2)

    loss, accuracy = model.evaluate(validation, verbose=2)
    print(f"validation loss {loss:.4f}, accuracy {accuracy:.4f}")
    model.export(os.path.join(args.export, "1"))


if __name__ == "__main__":
    main()
