import logging
from pathlib import Path

from torch.utils.data import DataLoader
from torchvision import datasets, transforms

from glyphs.model import GlyphNet
from glyphs.trainer import Trainer


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    transform = transforms.ToTensor()
    train = datasets.EMNIST("data", "letters", train=True, download=True, transform=transform)
    val = datasets.EMNIST("data", "letters", train=False, download=True, transform=transform)
    trainer = Trainer(GlyphNet(classes=27), device="cuda")
    trainer.fit(
        DataLoader(train, 256, shuffle=True, num_workers=4, pin_memory=True),
        DataLoader(val, 512, num_workers=4),
        epochs=15,
        folder=Path("."),
    )


if __name__ == "__main__":
    main()
