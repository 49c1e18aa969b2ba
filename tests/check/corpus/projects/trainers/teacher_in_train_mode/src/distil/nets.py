from torch import nn
from torchvision.models import efficientnet_v2_m, mobilenet_v3_small


def make_teacher(classes):
    net = efficientnet_v2_m(weights="DEFAULT")
    net.classifier[1] = nn.Linear(1280, classes)
    return net


def make_student(classes):
    return mobilenet_v3_small(num_classes=classes)
