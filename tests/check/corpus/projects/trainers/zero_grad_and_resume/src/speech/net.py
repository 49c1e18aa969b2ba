from torch import nn


class Wave2Letter(nn.Module):
    def __init__(self, letters=29, width=256):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, width, 400, 160), nn.ReLU(), nn.Conv1d(width, width, 9, 2, 4), nn.ReLU(),
            nn.Conv1d(width, letters, 1),
        )

    def forward(self, waves):
        return self.body(waves.unsqueeze(1)).transpose(1, 2)
