import functools
import os

import torch
import torch.distributed as dist


def setup():
    """Join the process group if a launcher started this process; otherwise run alone."""
    if "WORLD_SIZE" not in os.environ:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    return torch.device("cuda", local)


def is_distributed():
    return dist.is_available() and dist.is_initialized()


def world_size():
    return dist.get_world_size() if is_distributed() else 1


def is_main():
    return not is_distributed() or dist.get_rank() == 0


def main_only(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) if is_main() else None

    return wrapper


@main_only
def save(state, path):
    torch.save(state, path)


def mean(value, device):
    total = torch.tensor([value], device=device)
    if is_distributed():
        dist.all_reduce(total)
    return total.item() / world_size()
