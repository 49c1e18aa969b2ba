"""Accelerate takes its ranks from torchrun's variables, which SageMaker's launcher sets."""

import argparse
import os

import torch
from accelerate import Accelerator
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel
from sprites import Sprites
from torch.utils.data import DataLoader


def forever(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision="bf16", project_dir="/opt/ml/checkpoints")
    unet = UNet2DModel(sample_size=64, in_channels=3, out_channels=3, block_out_channels=(64, 128, 256, 256))
    ema = EMAModel(unet.parameters(), decay=0.999)
    noise_schedule = DDPMScheduler(num_train_timesteps=1000)
    data = Sprites(os.environ["SM_CHANNEL_SPRITES"])
    loader = DataLoader(data, args.batch_size, shuffle=True, num_workers=8, pin_memory=True, drop_last=True)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)
    unet, optimizer, loader = accelerator.prepare(unet, optimizer, loader)
    ema.to(accelerator.device)
    unet.train()
    for step, images in zip(range(args.steps), forever(loader)):
        noise = torch.randn_like(images)
        times = torch.randint(0, 1000, (len(images),), device=images.device)
        noisy = noise_schedule.add_noise(images, noise, times)
        loss = torch.nn.functional.mse_loss(unet(noisy, times).sample, noise)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        ema.step(unet.parameters())
        if step % 1000 == 0:
            accelerator.print(f"step={step} loss={loss.item():.4f}")
            accelerator.save_state(f"/opt/ml/checkpoints/step-{step}")
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        model = accelerator.unwrap_model(unet)
        ema.copy_to(model.parameters())
        model.save_pretrained(os.environ["SM_MODEL_DIR"])


if __name__ == "__main__":
    main()
