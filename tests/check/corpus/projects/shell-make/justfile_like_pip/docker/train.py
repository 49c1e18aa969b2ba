import glob

import pydicom
import tensorflow as tf


def read(path):
    pixels = pydicom.dcmread(path.numpy().decode()).pixel_array.astype("float32")
    return tf.image.resize((pixels / pixels.max())[..., None], (256, 256))


def row(path):
    image = tf.py_function(read, [path], tf.float32)
    image.set_shape((256, 256, 1))
    return image, tf.cast(tf.strings.regex_full_match(path, ".*/nodule/.*"), tf.float32)


def main():
    if not tf.config.list_physical_devices("GPU"):
        raise SystemExit("no GPU")
    paths = sorted(glob.glob("/data/train/*/*.dcm"))
    rows = (
        tf.data.Dataset.from_tensor_slices(paths)
        .shuffle(len(paths))
        .map(row, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(32)
        .prefetch(tf.data.AUTOTUNE)
    )
    model = tf.keras.applications.DenseNet121(weights=None, input_shape=(256, 256, 1), classes=1, classifier_activation="sigmoid")
    model.compile("adam", "binary_crossentropy", metrics=["AUC"])
    model.fit(rows, epochs=20)
    model.save("/data/out/lung.keras")


if __name__ == "__main__":
    main()
