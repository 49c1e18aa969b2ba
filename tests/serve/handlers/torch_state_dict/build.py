import torch


def build(folder):
    weight = torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 1.0]])
    torch.save({"fc.weight": weight, "fc.bias": torch.tensor([0.0, 10.0])}, folder / "model.pth")
