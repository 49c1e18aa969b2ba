import argparse
import os

import tensorflow as tf


def pipeline(folder, training):
    ds = tf.keras.utils.image_dataset_from_directory(folder, image_size=(160, 160), batch_size=64, shuffle=training)
    return ds.prefetch(tf.data.AUTOTUNE)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--model_dir", help="set by SageMaker; not used")
    parser.add_argument("--sm-model-dir", default=os.environ.get("SM_MODEL_DIR"))
    args = parser.parse_args()
    train = pipeline(os.environ["SM_CHANNEL_TRAIN"], True)
    val = pipeline(os.environ["SM_CHANNEL_VALIDATION"], False)
    model = tf.keras.Sequential(
        [
            tf.keras.Input((160, 160, 3)),
            tf.keras.layers.Rescaling(1 / 255),
            tf.keras.applications.MobileNetV2(include_top=False, weights=None, pooling="avg", input_shape=(160, 160, 3)),
            tf.keras.layers.Dense(24, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(train, validation_data=val, epochs=args.epochs, verbose=2)
    model.export(args.sm_model_dir)


if __name__ == "__main__":
    main()
