from torch import nn


class TrackNet(nn.Module):
    """The next twelve positions of a pedestrian from the last eight."""

    def __init__(self, hidden=128):
        super().__init__()
        self.encoder = nn.GRU(2, hidden, batch_first=True)
        self.decoder = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 24))

    def forward(self, past):
        _, state = self.encoder(past)
        return self.decoder(state[-1]).view(-1, 12, 2)
