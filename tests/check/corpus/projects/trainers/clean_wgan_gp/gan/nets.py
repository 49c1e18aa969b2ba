from torch import nn


class Critic(nn.Sequential):
    def __init__(self, width=64):
        super().__init__(
            nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(width, 2 * width, 4, 2, 1),
            nn.LeakyReLU(0.2), nn.Conv2d(2 * width, 4 * width, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(4 * width * 16, 1),
        )


class Maker(nn.Sequential):
    def __init__(self, latent=128, width=64):
        super().__init__(
            nn.Linear(latent, 4 * width * 16), nn.Unflatten(1, (4 * width, 4, 4)), nn.ReLU(),
            nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh(),
        )
