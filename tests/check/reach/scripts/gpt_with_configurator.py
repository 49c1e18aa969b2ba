"""Trains a small language model; any global can be set on the command line."""

import os
import time
from contextlib import nullcontext

import numpy as np
import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP

from tiny_gpt import GPT, Config

out_dir = "out"
eval_interval = 2000
eval_only = False
always_save = True
init_from = "scratch"
batch_size = 12
block_size = 1024
learning_rate = 6e-4
max_iters = 600000
device = "cuda"
dtype = "bfloat16"
config_keys = [k for k, v in globals().items() if not k.startswith("_") and isinstance(v, (int, float, str))]
exec(open("overrides.py").read())
config = {k: globals()[k] for k in config_keys}

ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    init_process_group(backend="nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    device = f"cuda:{local_rank}"
    torch.cuda.set_device(device)
    master_process = int(os.environ["RANK"]) == 0
else:
    master_process = True
if master_process:
    os.makedirs(out_dir, exist_ok=True)
torch.manual_seed(1337)
device_type = "cuda" if "cuda" in device else "cpu"
context = nullcontext() if device_type == "cpu" else torch.amp.autocast(device_type, torch.bfloat16)


def get_batch(split):
    data = np.memmap(f"{split}.bin", dtype=np.uint16, mode="r")
    at = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + block_size].astype(np.int64)) for i in at])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + block_size].astype(np.int64)) for i in at])
    return x.to(device), y.to(device)


model = GPT(Config(block_size=block_size))
if init_from == "resume":
    checkpoint = torch.load(os.path.join(out_dir, "ckpt.pt"), map_location=device)
    model.load_state_dict(checkpoint["model"])
model.to(device)
scaler = torch.cuda.amp.GradScaler(enabled=(dtype == "float16"))
optimizer = model.configure_optimizers(learning_rate)
if ddp:
    model = DDP(model, device_ids=[local_rank])


@torch.no_grad()
def estimate_loss():
    model.eval()
    losses = {}
    for split in ["train", "val"]:
        x, y = get_batch(split)
        with context:
            losses[split] = model(x, y)[1].item()
    model.train()
    return losses


best, step, started = 1e9, 0, time.time()
x, y = get_batch("train")
while True:
    if step % eval_interval == 0 and master_process:
        losses = estimate_loss()
        if losses["val"] < best or always_save:
            best = losses["val"]
            if step > 0:
                torch.save({"model": model.state_dict(), "config": config}, os.path.join(out_dir, "ckpt.pt"))
    if step == 0 and eval_only:
        break
    with context:
        _, loss = model(x, y)
    x, y = get_batch("train")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    step += 1
    if step > max_iters:
        break
if ddp:
    destroy_process_group()
