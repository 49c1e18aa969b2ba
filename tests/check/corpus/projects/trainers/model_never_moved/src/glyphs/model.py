from torch import nn


class GlyphNet(nn.Module):
    def __init__(self, classes: int, width: int = 32) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        )
        self.classifier = nn.Linear(32 * width, classes)

    def forward(self, images):
        return self.classifier(self.features(images).flatten(1))
