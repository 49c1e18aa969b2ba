"""Style transfer by optimizing the picture itself."""

import sys

import torch
from torch import nn
from torchvision.io import ImageReadMode, read_image, write_jpeg
from torchvision.models import vgg19
from torchvision.transforms.v2.functional import resize


def picture(path, device):
    image = resize(read_image(path, ImageReadMode.RGB), [512, 512], antialias=True)
    return image.to(device).float().unsqueeze(0) / 255


def gram(features):
    flat = features.flatten(2)
    return flat @ flat.transpose(1, 2) / flat.shape[1] / flat.shape[2]


def main():
    content_path, style_path, target = sys.argv[1:]
    device = torch.device("cuda")
    net = vgg19(weights="DEFAULT").features[:29].to(device).eval().requires_grad_(False)
    content, style = picture(content_path, device), picture(style_path, device)

    def layers(x):
        found = []
        for number, layer in enumerate(net):
            x = nn.functional.relu(x) if isinstance(layer, nn.ReLU) else layer(x)
            if number in (0, 5, 10, 19, 28):
                found.append(x)
        return found

    wanted_style = [gram(features) for features in layers(style)]
    wanted_content = layers(content)[3]
    image = content.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([image], lr=0.02)
    for _ in range(600):
        found = layers(image)
        loss = nn.functional.mse_loss(found[3], wanted_content)
        for features, wanted in zip(found, wanted_style):
            loss = loss + 1e4 * nn.functional.mse_loss(gram(features), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    write_jpeg((image.detach().clamp(0, 1)[0].cpu() * 255).to(torch.uint8), target)


if __name__ == "__main__":
    main()
