import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Engine:
    """Runs epochs on this process's GPU."""

    def __init__(self, model, optimizer_fn, loss_fn, out_dir):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(self.local_rank)
        self.device = torch.device(f"cuda:{self.local_rank}")
        self.model = DistributedDataParallel(model.to(self.device), device_ids=[self.local_rank])
        self.optimizer = optimizer_fn(self.model.parameters())
        self.loss_fn = loss_fn
        self.out_dir = out_dir

    @property
    def is_main(self):
        return dist.get_rank() == 0

    def run_epoch(self, epoch, loader):
        self.model.train()
        loader.sampler.set_epoch(epoch)
        for images, targets in loader:
            images = images.to(self.device, non_blocking=True)
            targets = targets.to(self.device, non_blocking=True)
            loss = self.loss_fn(self.model(images), targets)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
        if self.is_main:
            print(f"epoch {epoch}: {loss.item():.4f}")
            self.save(epoch)

    def save(self, epoch):
        os.makedirs(self.out_dir, exist_ok=True)
        torch.save({"model": self.model.module.state_dict(), "epoch": epoch}, f"{self.out_dir}/last.pt")
