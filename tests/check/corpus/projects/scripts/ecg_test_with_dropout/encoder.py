from torch import nn


class Encoder(nn.Module):
    def __init__(self, channels=12, width=192, classes=5):
        super().__init__()
        self.stem = nn.Conv1d(channels, width, 15, stride=4, padding=7)
        layer = nn.TransformerEncoderLayer(width, 6, 4 * width, dropout=0.1, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 4)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        h = self.stem(x).transpose(1, 2)
        return self.head(self.blocks(h).mean(1))
