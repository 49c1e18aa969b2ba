"""Ranks from Slurm's variables: srun starts a task for each GPU, and no launcher is needed."""

import os

import torch
import torch.distributed as dist


def join():
    rank = int(os.environ["SLURM_PROCID"])
    local = int(os.environ["SLURM_LOCALID"])
    dist.init_process_group("nccl", rank=rank, world_size=int(os.environ["SLURM_NTASKS"]))
    torch.cuda.set_device(local)
    return rank, torch.device("cuda", local)
