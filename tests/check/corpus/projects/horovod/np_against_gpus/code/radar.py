import glob
import os

import numpy as np
import tensorflow as tf


def windows(folder, batch_size, rank, size):
    paths = sorted(glob.glob(os.path.join(folder, "*.npz")))[rank::size]

    def generate():
        for path in paths:
            stored = np.load(path)
            yield from zip(stored["past"], stored["future"])

    signature = (
        tf.TensorSpec((128, 128, 6), tf.float32),
        tf.TensorSpec((128, 128, 1), tf.float32),
    )
    rows = tf.data.Dataset.from_generator(generate, output_signature=signature)
    return rows.shuffle(512).batch(batch_size).prefetch(tf.data.AUTOTUNE)
