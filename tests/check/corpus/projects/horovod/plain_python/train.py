import argparse
import json

import horovod.torch as hvd
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from volumes import Volumes


def network(classes, width):
    return nn.Sequential(
        nn.Conv3d(1, width, 3, padding=1), nn.InstanceNorm3d(width), nn.ReLU(),
        nn.Conv3d(width, width, 3, padding=1), nn.InstanceNorm3d(width), nn.ReLU(),
        nn.Conv3d(width, classes, 1),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    args = parser.parse_args()
    with open(args.config) as file:
        config = json.load(file)
    hvd.init()
    torch.cuda.set_device(hvd.rank())
    data = Volumes("/scratch/ct")
    sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
    loader = DataLoader(data, batch_size=config["batch"], sampler=sampler, num_workers=6, pin_memory=True)
    model = network(config["classes"], config["width"]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"] * hvd.size())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    loss_function = nn.CrossEntropyLoss()
    for epoch in range(config["epochs"]):
        sampler.set_epoch(epoch)
        for volume, mask in loader:
            optimizer.zero_grad()
            loss = loss_function(model(volume.cuda()), mask.cuda())
            loss.backward()
            optimizer.step()
        if hvd.rank() == 0:
            torch.save(model.state_dict(), "/scratch/out/unet.pt")


if __name__ == "__main__":
    main()
