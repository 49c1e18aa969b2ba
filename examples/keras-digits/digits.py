"""Handwritten digits: 1,797 images of 8 by 8 pixels from scikit-learn; nothing is downloaded.

Source: https://archive.ics.uci.edu/dataset/80 (E. Alpaydin, C. Kaynak, 1998)
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HELD_BACK = 360
"""Images that are never used for training; always the same."""


def split() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images, held-back images (of shape (count, 8, 8, 1), from 0 to 1), and the digits on both."""
    digits = load_digits()
    images = (digits.images / 16.0).astype("float32")[..., np.newaxis]
    labels = digits.target.astype("int64")
    return train_test_split(images, labels, test_size=HELD_BACK, stratify=labels, random_state=0)
