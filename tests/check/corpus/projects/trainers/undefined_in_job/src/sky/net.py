from torch import nn
from torchvision.models import regnet_y_400mf


def make_net(classes=10):
    net = regnet_y_400mf(num_classes=classes)
    net.stem[0] = nn.Conv2d(5, 32, 3, 2, 1, bias=False)
    return net
