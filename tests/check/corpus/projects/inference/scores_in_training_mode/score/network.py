from torch import nn


class Wide(nn.Module):
    def __init__(self, features=120):
        super().__init__()
        self.net = nn.Sequential(
            nn.BatchNorm1d(features), nn.Linear(features, 512), nn.SiLU(), nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 1)
        )

    def forward(self, x):
        return self.net(x).squeeze(-1)
