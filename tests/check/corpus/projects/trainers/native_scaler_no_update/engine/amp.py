import torch


class Scaler:
    """Mixed precision in one object."""

    def __init__(self, enabled=True):
        self.scaler = torch.amp.GradScaler("cuda", enabled=enabled)
        self.enabled = enabled

    def autocast(self):
        return torch.autocast("cuda", torch.float16, enabled=self.enabled)

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def step(self, optimizer):
        self.scaler.step(optimizer)
        optimizer.zero_grad(set_to_none=True)
