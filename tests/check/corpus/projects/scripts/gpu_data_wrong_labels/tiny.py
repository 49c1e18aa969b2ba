"""CIFAR-10 in GPU memory: no workers, no copies; everything happens on the device."""
import argparse
import time

import torch
from torch import nn
from torchvision.datasets import CIFAR10


class GpuBatches:
    def __init__(self, data, batch_size, device, training):
        self.images = torch.from_numpy(data.data).to(device).permute(0, 3, 1, 2).float().div(255)
        self.labels = torch.tensor(data.targets)
        self.batch_size, self.training = batch_size, training

    def __len__(self):
        return -(-len(self.labels) // self.batch_size)

    def __iter__(self):
        n = len(self.labels)
        order = torch.randperm(n, device=self.labels.device) if self.training else torch.arange(n, device=self.labels.device)
        for index in order.split(self.batch_size):
            images = self.images[index]
            if self.training and torch.rand(()) < 0.5:
                images = images.flip(-1)
            yield images, self.labels[index]


def network():
    def block(cin, cout):
        return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.GELU())

    return nn.Sequential(
        block(3, 64), block(64, 128), nn.MaxPool2d(2), block(128, 256), nn.MaxPool2d(2), block(256, 256),
        nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(256, 10),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=1024)
    args = parser.parse_args()
    device = torch.device("cuda")
    torch.backends.cudnn.benchmark = True
    train = GpuBatches(CIFAR10("data", train=True, download=True), args.batch_size, device, True)
    test = GpuBatches(CIFAR10("data", train=False), 2000, device, False)
    model = network().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=args.epochs * len(train))
    for epoch in range(args.epochs):
        start = time.perf_counter()
        model.train()
        for images, labels in train:
            with torch.autocast("cuda", torch.bfloat16):
                loss = nn.functional.cross_entropy(model(images.contiguous(memory_format=torch.channels_last)), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.inference_mode():
            hits = sum((model(images).argmax(1) == labels).sum() for images, labels in test).item()
        print(f"epoch {epoch}: {hits / 10_000:.4f} in {time.perf_counter() - start:.2f} s")
    torch.save(model.state_dict(), "tiny.pt")


if __name__ == "__main__":
    main()
