import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, models, transforms


def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    tf = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    data = datasets.ImageFolder(os.environ["SM_CHANNEL_TRAIN"], tf)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 64, sampler=sampler, num_workers=11, pin_memory=True)
    model = DDP(models.swin_t(num_classes=len(data.classes)).cuda(), device_ids=[local_rank])
    opt = torch.optim.AdamW(model.parameters(), 5e-4, weight_decay=0.05)
    for epoch in range(30):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        if dist.get_rank() == 0:
            print("epoch", epoch, "loss", loss.item())
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "swin.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
