import lightning as L
from gan import GAN
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import MNIST

if __name__ == "__main__":
    prepare = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))])
    digits = MNIST("data", train=True, download=True, transform=prepare)
    loader = DataLoader(digits, batch_size=128, shuffle=True, num_workers=4, persistent_workers=True)
    L.Trainer(accelerator="gpu", devices=1, max_epochs=30).fit(GAN(), loader)
