"""A GAN with manual optimization: two optimizers, stepped by hand, as Lightning wants it."""

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn


class Generator(nn.Module):
    def __init__(self, latent: int):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(latent, 128 * 7 * 7), nn.ReLU(), nn.Unflatten(1, (128, 7, 7)),
            nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.ConvTranspose2d(64, 1, 4, 2, 1), nn.Tanh(),
        )

    def forward(self, noise):
        return self.net(noise)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(64, 128, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(128 * 7 * 7, 1),
        )

    def forward(self, images):
        return self.net(images)


class GAN(L.LightningModule):
    def __init__(self, latent: int = 100, lr: float = 2e-4):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.generator = Generator(latent)
        self.discriminator = Discriminator()

    def training_step(self, batch, batch_idx):
        images, _ = batch
        opt_g, opt_d = self.optimizers()
        real = torch.ones(len(images), 1, device=self.device)
        fake = torch.zeros(len(images), 1, device=self.device)
        noise = torch.randn(len(images), self.hparams.latent, device=self.device)

        self.toggle_optimizer(opt_g)
        made = self.generator(noise)
        g_loss = F.binary_cross_entropy_with_logits(self.discriminator(made), real)
        opt_g.zero_grad()
        self.manual_backward(g_loss)
        opt_g.step()
        self.untoggle_optimizer(opt_g)

        self.toggle_optimizer(opt_d)
        d_real = F.binary_cross_entropy_with_logits(self.discriminator(images), real)
        d_fake = F.binary_cross_entropy_with_logits(self.discriminator(made.detach()), fake)
        d_loss = (d_real + d_fake) / 2
        opt_d.zero_grad()
        self.manual_backward(d_loss)
        opt_d.step()
        self.untoggle_optimizer(opt_d)
        self.log_dict({"g_loss": g_loss, "d_loss": d_loss}, prog_bar=True)

    def configure_optimizers(self):
        lr = self.hparams.lr
        opt_g = torch.optim.Adam(self.generator.parameters(), lr=lr, betas=(0.5, 0.999))
        opt_d = torch.optim.Adam(self.discriminator.parameters(), lr=lr, betas=(0.5, 0.999))
        return [opt_g, opt_d], []
