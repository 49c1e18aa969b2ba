import argparse

import torch
from engine import train_one_epoch
from masked import MaskedAutoencoder
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler
from torchvision import datasets, transforms
from util import misc


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", default=64, type=int)
    parser.add_argument("--epochs", default=400, type=int)
    parser.add_argument("--accum_iter", default=1, type=int)
    parser.add_argument("--clip_grad", default=None, type=float)
    parser.add_argument("--data_path", default="/data/imagenet")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--num_workers", default=10, type=int)
    return parser.parse_args()


def main(args):
    misc.init_distributed_mode(args)
    device = torch.device(args.device)
    data = datasets.ImageFolder(
        f"{args.data_path}/train",
        transforms.Compose([transforms.RandomResizedCrop(224, (0.2, 1.0)), transforms.ToTensor()]),
    )
    if args.distributed:
        sampler = DistributedSampler(data, args.world_size, args.rank, shuffle=True)
    else:
        sampler = RandomSampler(data)
    loader = DataLoader(
        data, args.batch_size, sampler=sampler, num_workers=args.num_workers, pin_memory=True, drop_last=True
    )
    model = MaskedAutoencoder().to(device)
    bare = model
    if args.distributed:
        model = DistributedDataParallel(model, device_ids=[args.gpu])
        bare = model.module
    optimizer = torch.optim.AdamW(bare.parameters(), lr=1.5e-4, betas=(0.9, 0.95))
    loss_scaler = misc.NativeScaler()
    for epoch in range(args.epochs):
        if args.distributed:
            loader.sampler.set_epoch(epoch)
        train_one_epoch(model, loader, optimizer, device, loss_scaler, args)
        misc.save_on_master(
            {"model": bare.state_dict(), "optimizer": optimizer.state_dict(), "scaler": loss_scaler.state_dict()},
            f"checkpoint-{epoch}.pth",
        )


if __name__ == "__main__":
    main(get_args())
