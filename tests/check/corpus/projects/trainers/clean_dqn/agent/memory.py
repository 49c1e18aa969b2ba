import random
from collections import deque

import numpy as np
import torch


class Memory:
    """Transitions as NumPy arrays on the host; batches are moved when they are drawn."""

    def __init__(self, size=100_000):
        self.rows = deque(maxlen=size)

    def add(self, *row):
        self.rows.append(row)

    def __len__(self):
        return len(self.rows)

    def draw(self, count, device):
        columns = zip(*random.sample(self.rows, count))
        return [torch.as_tensor(np.asarray(column, dtype=np.float32), device=device) for column in columns]
