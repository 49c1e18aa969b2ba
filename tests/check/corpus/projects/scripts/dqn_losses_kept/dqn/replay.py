import random
from collections import deque

import numpy as np
import torch


class Replay:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *transition):
        self.memory.append(transition)

    def sample(self, n, device):
        columns = zip(*random.sample(self.memory, n))
        return [torch.as_tensor(np.array(column), dtype=torch.float32, device=device) for column in columns]

    def __len__(self):
        return len(self.memory)
