from torch import nn


class Net(nn.Module):
    def __init__(self, inputs=784, hidden=256, classes=10):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Dropout(0.2), nn.Linear(hidden, classes)
        )

    def forward(self, X):
        return self.layers(X)
