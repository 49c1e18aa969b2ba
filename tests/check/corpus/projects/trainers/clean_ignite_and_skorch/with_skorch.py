"""skorch wraps the module: the device is an argument."""

import numpy as np
import torch
from models import Net
from sklearn.datasets import fetch_openml
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetClassifier

if __name__ == "__main__":
    digits = fetch_openml("mnist_784", as_frame=False)
    X = (digits.data / 255).astype(np.float32)
    y = digits.target.astype(np.int64)
    net = NeuralNetClassifier(
        Net,
        criterion=torch.nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        max_epochs=10,
        device="cuda",
        iterator_train__num_workers=2,
        iterator_train__shuffle=True,
    )
    search = GridSearchCV(net, {"lr": [1e-3, 3e-4], "module__hidden": [128, 512]}, cv=3, scoring="accuracy")
    search.fit(X, y)
    print(search.best_score_, search.best_params_)
