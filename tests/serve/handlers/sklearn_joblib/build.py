import joblib
import numpy as np
from sklearn.linear_model import LinearRegression


def build(folder):
    model = LinearRegression().fit(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 3.0, 4.0]))
    joblib.dump(model, folder / "model.joblib")
