"""A small model class in Keras's manner on top of torch."""

from collections import defaultdict

import numpy as np
import torch


class Model:
    def __init__(self, module):
        self.module = module
        self.history = defaultdict(list)

    def compile(self, optimizer, loss, device="cuda"):
        self.device = torch.device(device)
        self.optimizer = optimizer(self.module.parameters())
        self.loss = loss
        return self

    def fit(self, x, y, epochs=1, batch_size=32):
        for epoch in range(epochs):
            self.module.train()
            for x_batch, y_batch in self._batches(x, y, batch_size):
                inputs = torch.as_tensor(x_batch, device=self.device)
                output = self.module(inputs)
                loss = self.loss(output, torch.as_tensor(y_batch, device=self.device))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.history["loss"].append(loss)
            print(f"{epoch + 1}/{epochs} {self.history['loss'][-1].item():.4f}")
        return self.history

    @torch.inference_mode()
    def predict(self, x, batch_size=256):
        self.module.eval()
        parts = []
        for start in range(0, len(x), batch_size):
            rows = torch.as_tensor(x[start : start + batch_size], device=self.device)
            parts.append(self.module(rows).cpu().numpy())
        return np.concatenate(parts)

    @staticmethod
    def _batches(x, y, size):
        order = np.random.permutation(len(x))
        for start in range(0, len(x), size):
            rows = order[start : start + size]
            yield x[rows], y[rows]
