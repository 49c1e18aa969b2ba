from torch import nn


class SecondaryStructure(nn.Module):
    def __init__(self, letters=22, width=128, classes=8):
        super().__init__()
        self.embed = nn.Embedding(letters, width)
        self.conv = nn.Sequential(
            nn.Conv1d(width, width, 9, padding=4), nn.ReLU(), nn.Conv1d(width, width, 9, padding=4), nn.ReLU()
        )
        self.head = nn.Conv1d(width, classes, 1)

    def forward(self, letters):
        return self.head(self.conv(self.embed(letters).transpose(1, 2)))
