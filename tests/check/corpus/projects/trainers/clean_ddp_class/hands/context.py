"""One process or many: the same code, with or without torchrun."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class Context:
    rank: int
    world: int
    device: torch.device

    @classmethod
    def create(cls) -> Context:
        if "RANK" not in os.environ:
            return cls(0, 1, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl")
        return cls(dist.get_rank(), dist.get_world_size(), device)

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def sampler(self, data, shuffle):
        if self.world == 1:
            return None
        return torch.utils.data.DistributedSampler(data, self.world, self.rank, shuffle=shuffle)

    def wrap(self, model):
        model = model.to(self.device)
        if self.world == 1:
            return model
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=[self.device.index])

    def mean(self, value: float) -> float:
        tensor = torch.tensor(value, device=self.device)
        if self.world > 1:
            dist.all_reduce(tensor)
        return tensor.item() / self.world

    def close(self) -> None:
        if self.world > 1:
            dist.destroy_process_group()
