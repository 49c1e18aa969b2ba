import keras
import numpy as np


def build(folder):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.layers[-1].set_weights([np.array([[1.0], [-1.0]], np.float32), np.array([0.0], np.float32)])
    model.save(folder / "model.keras")
