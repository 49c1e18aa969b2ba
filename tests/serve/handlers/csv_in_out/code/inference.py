"""CSV in and out as XGBoost's container does it; only the model is the handler's."""

import numpy as np


class Booster:
    def predict(self, rows):
        rows = np.atleast_2d(rows)
        if rows.shape[1] != 3:
            raise ValueError(f"Feature shape mismatch, expected: 3, got {rows.shape[1]}")
        return np.where(np.isnan(rows), 0, rows).sum(axis=1)


def model_fn(model_dir):
    return Booster()
