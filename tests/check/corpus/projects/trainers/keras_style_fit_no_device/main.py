from functools import partial

import numpy as np
import torch
from fitlib import Model
from torch import nn

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200_000, 32)).astype("float32")
    y = (x @ rng.normal(size=(32, 1))).astype("float32")
    module = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 1))
    model = Model(module).compile(partial(torch.optim.Adam, lr=1e-3), nn.MSELoss())
    model.fit(x, y, epochs=5, batch_size=512)
    print(np.abs(model.predict(x[:1000]) - y[:1000]).mean())
