import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy, normalize
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


class Towers(nn.Module):
    def __init__(self, left=768, right=512, width=256):
        super().__init__()
        self.left = nn.Sequential(nn.Linear(left, 1024), nn.GELU(), nn.Linear(1024, width))
        self.right = nn.Sequential(nn.Linear(right, 1024), nn.GELU(), nn.Linear(1024, width))

    def forward(self, left, right):
        return 20 * normalize(self.left(left), dim=1) @ normalize(self.right(right), dim=1).T


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    stored = torch.load("/data/pairs.pt", map_location="cpu", weights_only=True)
    data = TensorDataset(stored["text"], stored["image"])
    loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=8, pin_memory=True)
    model = DistributedDataParallel(Towers().cuda(), device_ids=[local])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(10):
        for text, image in loader:
            scores = model(text.cuda(non_blocking=True), image.cuda(non_blocking=True))
            loss = cross_entropy(scores, torch.arange(len(scores), device=scores.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "/data/towers.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
