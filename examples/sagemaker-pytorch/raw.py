"""Writes raw/digits.npz, which stands for the raw data that you have in S3; nothing is downloaded.

Source: https://archive.ics.uci.edu/dataset/80 (E. Alpaydin, C. Kaynak, 1998), as it comes with scikit-learn.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
Path("raw").mkdir(exist_ok=True)
np.savez("raw/digits.npz", images=digits.images.astype("float32") / 16, labels=digits.target)
print(f"wrote raw/digits.npz: {len(digits.images)} images of 8 by 8 pixels")
