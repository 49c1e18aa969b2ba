import argparse
import functools
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import MixedPrecision
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.utils.data import DataLoader, DistributedSampler

from corpus import Blocks
from decoder import Block, Decoder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", required=True)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()
    dist.init_process_group("nccl")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
    bf16 = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16)
    model = FSDP(model, auto_wrap_policy=policy, mixed_precision=bf16, device_id=local_rank, use_orig_params=False)
    blocks = Blocks(args.tokens)
    sampler = DistributedSampler(blocks, drop_last=True)
    loader = DataLoader(blocks, args.batch_size, sampler=sampler, num_workers=4, pin_memory=True)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for step, tokens in enumerate(loader):
            tokens = tokens.cuda(non_blocking=True)
            logits = model(tokens[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            model.clip_grad_norm_(1.0)
            optimizer.step()
            if step % 50 == 0 and rank == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
    if rank == 0:
        state = model.state_dict()
        torch.save(state, "decoder.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
