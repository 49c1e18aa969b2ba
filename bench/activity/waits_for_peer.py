"""A kernel that waits for another process, as NCCL's kernels wait for other ranks: python waits_for_peer.py SECONDS.

With two GPUs and PyTorch, two ranks call NCCL's all-reduce, and one of them is late each time. NCCL refuses two ranks on one GPU: there,
a kernel of one thread polls a word in the memory of another process, which sets it late.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import sys
import time
from multiprocessing.connection import Connection

from kernels import Gpu, until

LATE_S = 2.0
IPC_HANDLE_BYTES = 64


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle: passed by value."""

    _fields_ = [("reserved", ctypes.c_char * IPC_HANDLE_BYTES)]


def late_peer(connection: Connection, seconds: float) -> None:
    """Owns the flag, and sets it `LATE_S` after it has been asked to."""
    gpu = Gpu()
    flag, handle = gpu.allocate(4096), IpcHandle()
    gpu.cuda.cuIpcGetMemHandle(ctypes.byref(handle), flag)
    connection.send_bytes(bytes(handle))
    while connection.recv_bytes() == b"wait":
        time.sleep(min(LATE_S, seconds))
        gpu.cuda.cuMemsetD32_v2(flag, 1, ctypes.c_size_t(1))
        gpu.cuda.cuCtxSynchronize()
        connection.send_bytes(b"set")


def waits_on_one_gpu(seconds: float) -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    peer = context.Process(target=late_peer, args=(there, seconds))
    peer.start()
    gpu, flag = Gpu(), ctypes.c_void_p()
    handle = IpcHandle.from_buffer_copy(here.recv_bytes())
    gpu.cuda.cuIpcOpenMemHandle_v2(ctypes.byref(flag), handle, 1)
    for _ in until(seconds):
        here.send_bytes(b"wait")
        gpu.spin(3 * LATE_S, flag)
        here.recv_bytes()
        gpu.cuda.cuMemsetD32_v2(flag, 0, ctypes.c_size_t(1))
        gpu.cuda.cuCtxSynchronize()
    here.send_bytes(b"end")
    peer.join()


def nccl_rank(rank: int, seconds: float) -> None:
    import torch
    from torch import distributed

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["ACTIVITY_PORT"])
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", rank=rank, world_size=2)
    ones = torch.ones(1024, device="cuda")
    for _ in range(max(1, int(seconds / LATE_S))):
        if rank == 1:
            time.sleep(LATE_S)
        distributed.all_reduce(ones)
        torch.cuda.synchronize()
    distributed.destroy_process_group()


def waits_in_nccl(seconds: float) -> None:
    import socket

    from torch.multiprocessing.spawn import spawn

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ["ACTIVITY_PORT"] = str(free.getsockname()[1])
    spawn(nccl_rank, (seconds,), 2)


def gpus_for_nccl() -> int:
    try:
        import torch
    except ImportError:
        return 0
    return torch.cuda.device_count() if torch.distributed.is_nccl_available() else 0


if __name__ == "__main__":
    wait = waits_in_nccl if gpus_for_nccl() >= 2 else waits_on_one_gpu
    wait(float(sys.argv[1]))
