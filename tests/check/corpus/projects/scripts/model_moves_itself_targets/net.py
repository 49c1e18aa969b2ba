import torch
from torch import nn


class Regressor(nn.Module):
    """Owns its device: inputs may be anywhere."""

    def __init__(self, features, width=256, device=None):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 2))
        self.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))

    @property
    def device(self):
        return next(self.parameters()).device

    def forward(self, x):
        return self.body(x.to(self.device, non_blocking=True))

    def nll(self, x, y):
        mean, log_var = self(x).unbind(-1)
        return 0.5 * (log_var + (y - mean) ** 2 / log_var.exp()).mean()
