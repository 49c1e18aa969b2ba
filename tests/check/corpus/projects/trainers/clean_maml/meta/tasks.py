import math

import torch


class Sines:
    """Regression tasks: sine waves of random amplitude and phase."""

    def __init__(self, device, shots=10):
        self.device, self.shots = device, shots

    def draw(self, count):
        for _ in range(count):
            amplitude = 0.1 + 4.9 * torch.rand((), device=self.device)
            phase = math.pi * torch.rand((), device=self.device)
            x = 10 * torch.rand(2 * self.shots, 1, device=self.device) - 5
            y = amplitude * torch.sin(x + phase)
            yield (x[: self.shots], y[: self.shots]), (x[self.shots :], y[self.shots :])
