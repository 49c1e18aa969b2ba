from torch import nn
from torchvision.models.segmentation import lraspp_mobilenet_v3_large


class Matting(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=1)

    def forward(self, x):
        return self.net(x)["out"].sigmoid()
