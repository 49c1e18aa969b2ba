import os

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf


tf.keras.utils.set_random_seed(11)

CHANNEL = os.environ.get("SM_CHANNEL_TRAINING", "data")
MODEL_DIR = os.environ.get("SM_MODEL_DIR", "model")


def read(path, label):
    audio = tf.io.parse_tensor(tf.io.read_file(path), tf.float32)
    return tf.ensure_shape(audio, (96, 64))[..., None], label


def listing():
    classes = sorted(os.listdir(CHANNEL))
    pairs = [(os.path.join(CHANNEL, c, f), i) for i, c in enumerate(classes) for f in os.listdir(os.path.join(CHANNEL, c))]
    paths, labels = zip(*pairs)
    return list(paths), list(labels), len(classes)


paths, labels, classes = listing()
ds = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(len(paths), seed=1)
ds = ds.map(read, num_parallel_calls=tf.data.AUTOTUNE).batch(128).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential(
    [
        tf.keras.Input((96, 64, 1)),
        tf.keras.layers.Conv2D(32, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Conv2D(64, 3, activation="relu"),
        tf.keras.layers.GlobalMaxPooling2D(),
        tf.keras.layers.Dense(classes, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
stop = tf.keras.callbacks.EarlyStopping(monitor="loss", patience=4)
model.fit(ds, epochs=60, callbacks=[stop], verbose=2)
model.export(os.path.join(MODEL_DIR, "1"))
