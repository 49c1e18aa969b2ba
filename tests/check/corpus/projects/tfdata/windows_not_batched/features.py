import random
from pathlib import Path

import numpy as np
import tensorflow as tf


class FeatureSource:
    """Windows of sensor recordings, read from .npy files."""

    def __init__(self, root, window=256, batch_size=128):
        self.root = Path(root)
        self.window = window
        self.batch_size = batch_size

    def _windows(self, split):
        paths = sorted((self.root / split).glob("*.npy"))
        random.shuffle(paths)
        for path in paths:
            record = np.load(path)
            label = int(path.stem.rsplit("_", 1)[1])
            for start in range(0, len(record) - self.window, self.window // 2):
                yield record[start : start + self.window].astype("float32"), label

    def dataset(self, split):
        ds = tf.data.Dataset.from_generator(
            lambda: self._windows(split),
            output_signature=(
                tf.TensorSpec((self.window, 6), tf.float32),
                tf.TensorSpec((), tf.int32),
            ),
        )
        return ds.prefetch(self.batch_size)
