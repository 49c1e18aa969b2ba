"""Writes data/digits.npz: handwritten digits, 1,797 images of 8 by 8 pixels; nothing is downloaded.

Source: https://archive.ics.uci.edu/dataset/80 (E. Alpaydin, C. Kaynak, 1998), as it comes with scikit-learn.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.images))
Path("data").mkdir(exist_ok=True)
images = (digits.images[order, :, :, np.newaxis] / 16).astype("float32")
np.savez("data/digits.npz", images=images, labels=digits.target[order])
print(f"wrote data/digits.npz: {len(images)} images of 8 by 8 pixels")
