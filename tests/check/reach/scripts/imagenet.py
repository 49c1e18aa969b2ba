"""Image classification on several GPUs and hosts."""

import argparse
import os
import shutil

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torchvision.datasets as datasets
import torchvision.models as models
import torchvision.transforms as transforms
from torch.utils.data import Subset

parser = argparse.ArgumentParser(description="classification")
parser.add_argument("data", nargs="?", default="imagenet")
parser.add_argument("-a", "--arch", default="resnet18")
parser.add_argument("--epochs", default=90, type=int)
parser.add_argument("-e", "--evaluate", dest="evaluate", action="store_true")
parser.add_argument("--resume", default="", type=str)
parser.add_argument("--world-size", default=-1, type=int)
parser.add_argument("--rank", default=-1, type=int)
parser.add_argument("--gpu", default=None, type=int)
parser.add_argument("--multiprocessing-distributed", action="store_true")
parser.add_argument("--dummy", action="store_true")
best = 0


def main():
    args = parser.parse_args()
    args.distributed = args.world_size > 1 or args.multiprocessing_distributed
    count = torch.accelerator.device_count() if torch.accelerator.is_available() else 1
    if args.multiprocessing_distributed:
        mp.spawn(main_worker, nprocs=count, args=(count, args))
    else:
        main_worker(args.gpu, count, args)


def main_worker(gpu, count, args):
    global best
    args.gpu = gpu
    if args.distributed:
        dist.init_process_group("nccl", world_size=args.world_size, rank=args.rank)
    model = models.__dict__[args.arch]()
    if not torch.cuda.is_available():
        print("using CPU, this will be slow")
    elif args.distributed:
        model.cuda(args.gpu)
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[args.gpu])
    elif args.gpu is not None:
        torch.cuda.set_device(args.gpu)
        model = model.cuda(args.gpu)
    else:
        model = torch.nn.DataParallel(model).cuda()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    criterion = torch.nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    if args.resume and os.path.isfile(args.resume):
        checkpoint = torch.load(args.resume, map_location=device)
        model.load_state_dict(checkpoint["state_dict"])
    if args.dummy:
        train_set = datasets.FakeData(1281, (3, 224, 224), 1000, transforms.ToTensor())
    else:
        train_set = datasets.ImageFolder(os.path.join(args.data, "train"), transforms.ToTensor())
    val_set = Subset(train_set, range(100))
    sampler = torch.utils.data.distributed.DistributedSampler(train_set) if args.distributed else None
    loader = torch.utils.data.DataLoader(train_set, 256, shuffle=sampler is None, num_workers=4, sampler=sampler)
    val_loader = torch.utils.data.DataLoader(val_set, 256, num_workers=4)
    if args.evaluate:
        validate(val_loader, model, device)
        return
    for epoch in range(args.epochs):
        if args.distributed:
            sampler.set_epoch(epoch)
        train(loader, model, criterion, optimizer, device)
        accuracy = validate(val_loader, model, device)
        is_best = accuracy > best
        best = max(accuracy, best)
        if not args.multiprocessing_distributed or args.rank % count == 0:
            save_checkpoint({"epoch": epoch + 1, "state_dict": model.state_dict()}, is_best)


def train(loader, model, criterion, optimizer, device):
    model.train()
    for images, target in loader:
        images, target = images.to(device, non_blocking=True), target.to(device, non_blocking=True)
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def validate(loader, model, device):
    model.eval()
    right = 0
    with torch.no_grad():
        for images, target in loader:
            right += (model(images.to(device)).argmax(1) == target.to(device)).sum().item()
    return right / len(loader.dataset)


def save_checkpoint(state, is_best, filename="checkpoint.pth.tar"):
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, "model_best.pth.tar")


if __name__ == "__main__":
    main()
