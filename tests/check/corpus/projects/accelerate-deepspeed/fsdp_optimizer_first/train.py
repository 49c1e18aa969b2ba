import functools
import os

import torch
import torch.distributed as dist
from gpt import GPT, Block
from tokens import Tokens
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.utils.data import DataLoader, DistributedSampler


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    data = Tokens("/data/tokens.bin")
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=4, pin_memory=True, drop_last=True)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
    model = FSDP(model, auto_wrap_policy=policy, device_id=local)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for ids in loader:
            ids = ids.to(local, non_blocking=True)
            with torch.autocast("cuda", torch.bfloat16):
                logits = model(ids[:, :-1])
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            model.clip_grad_norm_(1.0)
            optimizer.step()
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "gpt.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
