import json
from pathlib import Path

import tensorflow as tf

AUTO = tf.data.AUTOTUNE


class Loader:
    def __init__(self, root, size=192):
        self.root = Path(root)
        self.size = size
        self.labels = json.loads((self.root / "labels.json").read_text())

    def _files(self, split):
        names = sorted((self.root / split).glob("*.png"))
        return [str(n) for n in names], [self.labels[n.name] for n in names]

    def _decode(self, path, label):
        image = tf.io.decode_png(tf.io.read_file(path), channels=3)
        return tf.image.resize(image, (self.size, self.size)) / 255.0, label

    def _augment(self, image, label):
        image = tf.image.random_flip_left_right(image)
        image = tf.image.random_saturation(image, 0.8, 1.2)
        return tf.image.random_hue(image, 0.05), label

    def dataset(self, split, batch):
        dataset = tf.data.Dataset.from_tensor_slices(self._files(split))
        if split == "train":
            dataset = dataset.map(self._decode, num_parallel_calls=AUTO).cache().shuffle(8192)
            dataset = dataset.map(self._augment, num_parallel_calls=AUTO)
        else:
            dataset = dataset.map(self._decode, num_parallel_calls=AUTO)
        return dataset.batch(batch).prefetch(AUTO)
