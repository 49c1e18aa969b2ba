import argparse
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import datasets
from torchvision.models import EfficientNet_V2_S_Weights, efficientnet_v2_s


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--batch-size", type=int, default=256)
    args = parser.parse_args()
    dist.init_process_group("nccl")
    rank = int(os.environ["RANK"])
    weights = EfficientNet_V2_S_Weights.DEFAULT
    model = efficientnet_v2_s(weights=weights).cuda().eval()
    dataset = datasets.ImageFolder(args.root, weights.transforms())
    sampler = DistributedSampler(dataset, shuffle=False)
    loader = DataLoader(dataset, args.batch_size, sampler=sampler, num_workers=8, pin_memory=True)
    hits = torch.zeros((), device="cuda")
    with torch.inference_mode():
        for x, y in loader:
            hits += (model(x.cuda(non_blocking=True)).argmax(1) == y.cuda(non_blocking=True)).sum()
    dist.all_reduce(hits)
    if rank == 0:
        print(f"accuracy {hits.item() / len(dataset):.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
