import torch


def build(folder):
    torch.save({"scale": torch.tensor([1.0, 1.0, 2.0])}, folder / "model.pth")
