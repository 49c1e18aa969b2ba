"""As the scikit-learn container's examples: joblib in model_fn, the rest by default."""

import os

import joblib


def model_fn(model_dir):
    return joblib.load(os.path.join(model_dir, "model.joblib"))
