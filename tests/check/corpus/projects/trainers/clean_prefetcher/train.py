"""uint8 batches are copied as they are, and scaled on the GPU; no .to() is left in the loop."""

import torch
from fastload.ema import Ema
from fastload.loaders import make
from torch import nn
from torchvision.models import resnet50

device = torch.device("cuda", 0)


def scale(images):
    return images.to(memory_format=torch.channels_last, dtype=torch.bfloat16) / 255


def evaluate(model, loader, count):
    right = torch.zeros((), device=device, dtype=torch.long)
    with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16):
        for images, labels in loader:
            right += (model(scale(images)).argmax(1) == labels).sum()
    return right.item() / count


def main():
    train, _ = make("/data/tiny/train", device)
    val, count = make("/data/tiny/val", device, train=False)
    model = resnet50(num_classes=200).to(device, memory_format=torch.channels_last)
    ema = Ema(model)
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=40 * len(train))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    for epoch in range(40):
        model.train()
        for images, labels in train:
            with torch.autocast("cuda", torch.bfloat16):
                loss = criterion(compiled(scale(images)), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            scheduler.step()
            ema.update(model)
        print(epoch, f"{evaluate(ema.module, val, count):.4f}", flush=True)
        torch.save(ema.module.state_dict(), "ema.pt")


if __name__ == "__main__":
    main()
