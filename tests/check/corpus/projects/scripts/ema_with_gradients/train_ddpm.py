import copy
from dataclasses import dataclass

import torch
import tyro
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

from unet_small import Denoiser

T = 1000


@dataclass
class Args:
    root: str = "data"
    steps: int = 200_000
    batch_size: int = 128
    lr: float = 2e-4
    ema: float = 0.9999
    workers: int = 6


def forever(loader):
    while True:
        yield from loader


def main(args: Args):
    device = torch.device("cuda")
    tf = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor(), transforms.Normalize(0.5, 0.5)])
    data = datasets.CIFAR10(args.root, download=True, transform=tf)
    loader = DataLoader(data, args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True, pin_memory=True)
    alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, T, device=device), 0)
    model = Denoiser().to(device)
    ema = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    for step, (x, _) in zip(range(args.steps), forever(loader)):
        x = x.to(device, non_blocking=True)
        t = torch.randint(0, T, (x.size(0),), device=device)
        noise = torch.randn_like(x)
        a = alpha_bar[t][:, None, None, None]
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.mse_loss(model(noisy, t), noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        for p, q in zip(ema.parameters(), model.parameters()):
            p.lerp_(q, 1 - args.ema)
        if step % 1000 == 0:
            print(f"step {step} loss {loss.item():.4f}")
            torch.save(ema.state_dict(), "ddpm.pt")


if __name__ == "__main__":
    main(tyro.cli(Args))
