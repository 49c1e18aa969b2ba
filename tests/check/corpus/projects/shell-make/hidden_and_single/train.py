import argparse
import os

import torch
import torch.distributed as dist
from sr import Photos, SuperResolution
from torch.nn.functional import l1_loss
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    data = Photos("/data/div2k/train")
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=16, sampler=sampler, num_workers=4, pin_memory=True)
    model = DDP(SuperResolution().cuda(), device_ids=[local])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    for epoch in range(80):
        sampler.set_epoch(epoch)
        for small, large in loader:
            loss = l1_loss(model(small.cuda(non_blocking=True)), large.cuda(non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if dist.get_rank() == 0:
        os.makedirs(args.out, exist_ok=True)
        torch.save(model.module.state_dict(), os.path.join(args.out, "model.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
