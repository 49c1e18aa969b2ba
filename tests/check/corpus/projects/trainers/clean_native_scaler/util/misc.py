"""Helpers in the manner of research code: the scaler object does backward, clipping and the step."""

import os

import torch
import torch.distributed as dist


class NativeScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer, parameters, clip_grad=None, update_grad=True):
        self._scaler.scale(loss).backward()
        if not update_grad:
            return None
        self._scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(parameters, clip_grad or float("inf"))
        self._scaler.step(optimizer)
        self._scaler.update()
        return norm

    def state_dict(self):
        return self._scaler.state_dict()

    def load_state_dict(self, state):
        self._scaler.load_state_dict(state)


def init_distributed_mode(args):
    if "RANK" not in os.environ:
        args.distributed, args.gpu, args.rank, args.world_size = False, 0, 0, 1
        return
    args.rank, args.world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    args.gpu, args.distributed = int(os.environ["LOCAL_RANK"]), True
    torch.cuda.set_device(args.gpu)
    dist.init_process_group("nccl", rank=args.rank, world_size=args.world_size)
    dist.barrier()


def is_main_process():
    return not dist.is_initialized() or dist.get_rank() == 0


def save_on_master(*args, **kwargs):
    if is_main_process():
        torch.save(*args, **kwargs)
