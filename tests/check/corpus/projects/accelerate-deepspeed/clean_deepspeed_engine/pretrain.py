"""The engine does zero_grad, the backward pass and the reduction: the loop has none of them."""

import argparse

import deepspeed
import torch
from corpus import Tokens
from torch.utils.data import DataLoader, DistributedSampler
from transformers import GPT2Config, GPT2LMHeadModel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.add_argument("--epochs", type=int, default=2)
    args = deepspeed.add_config_arguments(parser).parse_args()
    deepspeed.init_distributed(dist_backend="nccl")
    torch.manual_seed(5)
    model = GPT2LMHeadModel(GPT2Config(n_layer=36, n_embd=1280, n_head=20))
    model.gradient_checkpointing_enable()
    data = Tokens("/data/web.bin")
    sampler = DistributedSampler(data, shuffle=True, seed=5)
    loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=4, pin_memory=True, drop_last=True)
    optimizer = deepspeed.ops.adam.DeepSpeedCPUAdam(model.parameters(), lr=2e-4)
    engine, optimizer, _, _ = deepspeed.initialize(args=args, model=model, optimizer=optimizer)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for ids in loader:
            ids = ids.to(engine.device, non_blocking=True)
            loss = engine(input_ids=ids, labels=ids).loss
            engine.backward(loss)
            engine.step()
        # Every rank writes its own part: all of them have to call this.
        engine.save_checkpoint("/data/checkpoints", tag=f"epoch-{epoch}")


if __name__ == "__main__":
    main()
