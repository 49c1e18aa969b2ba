import os

import torch
import torch.distributed as dist
from data import Captions
from model import Captioner
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("smddp")
    rank = dist.get_rank()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    data = Captions(os.environ["SM_CHANNEL_COCO"])
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=64, sampler=sampler, num_workers=10, pin_memory=True)
    model = DDP(Captioner().cuda())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = torch.nn.CrossEntropyLoss(ignore_index=0)
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for images, captions in loader:
            images, captions = images.cuda(non_blocking=True), captions.cuda(non_blocking=True)
            logits = model(images, captions[:, :-1])
            loss = criterion(logits.flatten(0, 1), captions[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            torch.save(model.module.state_dict(), "best.pt")


if __name__ == "__main__":
    main()
