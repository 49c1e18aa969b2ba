import math

import keras
import numpy as np


class ImageMaskSequence(keras.utils.PyDataset):
    """Pairs of tiles and masks saved as .npz files; augmentation is numpy."""

    def __init__(self, files, batch_size, augment, **kwargs):
        super().__init__(**kwargs)
        self.files = list(files)
        self.batch_size = batch_size
        self.augment = augment
        self.rng = np.random.default_rng(5)

    def __len__(self):
        return math.ceil(len(self.files) / self.batch_size)

    def __getitem__(self, index):
        rows = [np.load(f) for f in self.files[index * self.batch_size : (index + 1) * self.batch_size]]
        x = np.stack([r["tile"] for r in rows]).astype("float32") / 255
        y = np.stack([r["mask"] for r in rows]).astype("float32")
        if self.augment and self.rng.random() < 0.5:
            x, y = x[:, :, ::-1], y[:, :, ::-1]
        return x, y

    def on_epoch_end(self):
        if self.augment:
            self.rng.shuffle(self.files)
