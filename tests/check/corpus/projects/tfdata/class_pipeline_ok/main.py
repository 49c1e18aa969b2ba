import argparse

import tensorflow as tf

from data.loader import Loader


def network(size, classes):
    base = tf.keras.applications.MobileNetV3Large(
        input_shape=(size, size, 3), include_top=False, pooling="avg", include_preprocessing=False
    )
    return tf.keras.Sequential([base, tf.keras.layers.Dense(classes, activation="softmax")])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--classes", type=int, default=38)
    args = parser.parse_args()
    loader = Loader(args.root)
    model = network(loader.size, args.classes)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(loader.dataset("train", args.batch), validation_data=loader.dataset("val", args.batch), epochs=args.epochs)
    print(model.evaluate(loader.dataset("test", args.batch), return_dict=True))
    model.save("leaves.keras")
