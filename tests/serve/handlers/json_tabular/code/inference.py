"""Named features in, a class out; nothing but Python and numpy."""

import json
import os

import numpy as np

FEATURES = ["age", "income"]


def model_fn(model_dir):
    with open(os.path.join(model_dir, "coefficients.json")) as file:
        return json.load(file)


def input_fn(request_body, request_content_type):
    if request_content_type == "application/json":
        rows = json.loads(request_body)["rows"]
        return np.array([[row[name] for name in FEATURES] for row in rows], dtype=float)
    raise ValueError("This model only supports application/json input, content type not supported")


def predict_fn(input_data, model):
    scores = input_data @ np.array(model["weights"]) + model["bias"]
    return ["yes" if score > 0 else "no" for score in scores]


def output_fn(prediction, accept):
    if accept == "application/json":
        return json.dumps({"labels": prediction}), accept
    raise RuntimeError(f"{accept} accept type is not supported by this script.")
