import argparse
import itertools
import os

import torch
from torch import nn
from torch.utils.data import DataLoader

from pairs import Pairs

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=48)
    args = parser.parse_args()
    device = torch.device("cuda")
    pairs = Pairs(os.environ["SM_CHANNEL_NOISY"], os.environ["SM_CHANNEL_CLEAN"])
    loader = DataLoader(pairs, args.batch_size, shuffle=True, num_workers=4, pin_memory=True, drop_last=True)
    model = nn.Sequential(
        nn.Conv1d(1, 64, 15, padding=7), nn.PReLU(), nn.Conv1d(64, 64, 15, padding=7), nn.PReLU(),
        nn.Conv1d(64, 1, 15, padding=7),
    ).to(device)
    opt = torch.optim.AdamW(model.parameters(), 3e-4)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for step, (noisy, clean) in zip(range(args.steps), batches):
        noisy, clean = noisy.to(device, non_blocking=True), clean.to(device, non_blocking=True)
        loss = nn.functional.l1_loss(model(noisy), clean)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 500 == 0:
            print(f"step {step} l1 {loss.item():.5f}")
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "denoise.pt"))
