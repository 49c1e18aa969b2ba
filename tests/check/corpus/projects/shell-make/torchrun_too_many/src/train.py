import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import datasets, models, transforms


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    transform = transforms.Compose([transforms.Resize((256, 256)), transforms.ToTensor()])
    data = datasets.ImageFolder(os.environ["SM_CHANNEL_CORAL"], transform)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler, num_workers=4, pin_memory=True)
    model = DDP(models.regnet_y_800mf(num_classes=len(data.classes)).cuda(), device_ids=[local])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    for epoch in range(12):
        sampler.set_epoch(epoch)
        model.train()
        for images, labels in loader:
            images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "coral.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
