from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.net = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        return x + self.net(self.norm(x))


class Net(nn.Module):
    def __init__(self, cells=4096, width=2048, depth=24):
        super().__init__()
        self.first = nn.Linear(cells, width)
        self.layers = nn.Sequential(*[Layer(width) for _ in range(depth)])
        self.last = nn.Linear(width, cells)

    def initialize(self):
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.LayerNorm):
                module.reset_parameters()

    def forward(self, x):
        return self.last(self.layers(self.first(x)))
