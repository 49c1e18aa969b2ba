from torch import nn


class WaveNet(nn.Module):
    def __init__(self, classes=35, width=64):
        super().__init__()
        self.first = nn.Conv1d(1, width, 80, 16)
        self.blocks = nn.ModuleList(nn.Conv1d(width, width, 3, padding=2**i, dilation=2**i) for i in range(6))
        self.head = nn.Linear(width, classes)

    def forward(self, signals):
        x = self.first(signals).relu()
        for block in self.blocks:
            x = x + block(x).relu()
        return self.head(x.mean(dim=2))
