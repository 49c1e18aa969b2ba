"""A .keras model with its own scaling of the features."""

import json
import os

import keras
import numpy as np

MEAN = np.array([10.0, 20.0])


def model_fn(model_dir):
    return keras.models.load_model(os.path.join(model_dir, "model.keras"))


def input_fn(body, content_type):
    return (np.array(json.loads(body)["features"], dtype="float32") - MEAN).reshape(-1, 2)


def predict_fn(data, model):
    return model.predict(data, verbose=0)


def output_fn(prediction, accept):
    return json.dumps({"scores": prediction.ravel().tolist()})
