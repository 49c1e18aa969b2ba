import torch
from proteins.fit import Fit
from proteins.net import SecondaryStructure
from torch.utils.data import TensorDataset


def load(path):
    stored = torch.load(path, map_location="cpu", weights_only=True)
    return TensorDataset(stored["letters"], stored["structure"])


if __name__ == "__main__":
    net = SecondaryStructure()
    net.load_state_dict(torch.load("pretrained.pt", map_location="cpu", weights_only=True), strict=False)
    Fit(net, load("cb513.pt"))(25)
