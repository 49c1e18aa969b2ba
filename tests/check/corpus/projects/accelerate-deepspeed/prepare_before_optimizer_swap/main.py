import torch
from accelerate import Accelerator
from loop import run
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import vit_b_16


def main():
    stored = torch.load("/data/blooms.pt", map_location="cpu", weights_only=True)
    loader = DataLoader(
        TensorDataset(stored["images"], stored["labels"]), 32, shuffle=True, num_workers=4, pin_memory=True
    )
    run(Accelerator(), vit_b_16(num_classes=12), loader, 20)


if __name__ == "__main__":
    main()
