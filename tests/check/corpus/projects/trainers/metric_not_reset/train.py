from scan.fit import fit
from scan.slices import Slices
from torch import nn

if __name__ == "__main__":
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 1, 1)
    )
    fit(net, Slices("/data/liver/train"), Slices("/data/liver/val"))
