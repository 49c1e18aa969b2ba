import argparse

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SequentialSampler
from torchvision import transforms
from torchvision.datasets import ImageNet
from torchvision.models import get_model

from utils import dist


def make_loader(root, split, batch_size, workers):
    training = split == "train"
    crop = transforms.RandomResizedCrop(224) if training else transforms.CenterCrop(224)
    data = ImageNet(root, split, transform=transforms.Compose([transforms.Resize(256), crop, transforms.ToTensor()]))
    if dist.is_distributed():
        sampler = DistributedSampler(data, shuffle=training)
    else:
        sampler = RandomSampler(data) if training else SequentialSampler(data)
    return DataLoader(data, batch_size, sampler=sampler, num_workers=workers, pin_memory=True, drop_last=training)


def unwrap(model):
    return model.module if isinstance(model, DistributedDataParallel) else model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--arch", default="regnet_y_400mf")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--workers", type=int, default=10)
    args = parser.parse_args()
    device = dist.setup()
    train = make_loader(args.root, "train", args.batch_size, args.workers)
    valid = make_loader(args.root, "val", args.batch_size, args.workers)
    model = get_model(args.arch, weights=None).to(device)
    if dist.is_distributed():
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1 * dist.world_size(), momentum=0.9, weight_decay=5e-5)
    for epoch in range(args.epochs):
        if dist.is_distributed():
            train.sampler.set_epoch(epoch)
        model.train()
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        model.eval()
        hits = 0
        with torch.inference_mode():
            for x, y in valid:
                hits += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
        accuracy = dist.mean(hits / len(valid.sampler), device)
        if dist.is_main():
            print(f"epoch {epoch}: accuracy {accuracy:.4f}")
        dist.save({"model": unwrap(model).state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt")


if __name__ == "__main__":
    main()
