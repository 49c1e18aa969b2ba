"""SageMaker's data parallel library is a backend of torch.distributed since version 1.4."""

import argparse
import os

import smdistributed.dataparallel.torch.torch_smddp  # noqa: F401
import torch
import torch.distributed as dist
from tiles import Tiles
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torchvision.models.segmentation import lraspp_mobilenet_v3_large


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    dist.init_process_group(backend="smddp")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    device = torch.device("cuda", local)
    data = Tiles(os.environ["SM_CHANNEL_TILES"])
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, args.batch_size, sampler=sampler, num_workers=8, pin_memory=True, drop_last=True)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(lraspp_mobilenet_v3_large(num_classes=7)).to(device)
    model = DistributedDataParallel(model, device_ids=[local])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    model.train()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for tiles, classes in loader:
            tiles = tiles.to(device, non_blocking=True)
            classes = classes.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = criterion(model(tiles)["out"], classes)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "tiles.pt"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
