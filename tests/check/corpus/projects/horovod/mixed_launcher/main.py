import argparse

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, models, transforms


def train(model, loader, sampler, optimizer, device, epochs):
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        model.train()
        for images, labels in loader:
            images, labels = images.to(device), labels
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        if hvd.rank() == 0:
            print("epoch", epoch, "loss", loss.item(), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--epochs", type=int, default=25)
    args = parser.parse_args()
    hvd.init()
    device = torch.device("cuda", hvd.local_rank())
    torch.cuda.set_device(device)
    transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    cars = datasets.StanfordCars("/results/data", transform=transform)
    sampler = DistributedSampler(cars, num_replicas=hvd.size(), rank=hvd.rank())
    loader = DataLoader(cars, batch_size=48, sampler=sampler, num_workers=6, pin_memory=True)
    model = models.resnet50(num_classes=196).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size(), momentum=0.9)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    train(model, loader, sampler, optimizer, device, args.epochs)
    torch.save(model.state_dict(), args.out)


if __name__ == "__main__":
    main()
