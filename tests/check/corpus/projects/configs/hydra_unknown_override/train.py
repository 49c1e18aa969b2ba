import hydra
import lightning as L
from module import Cifar
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg):
    data = datasets.CIFAR10(cfg.data.root, train=True, transform=transforms.ToTensor())
    loader = DataLoader(
        data, batch_size=cfg.data.batch_size, shuffle=True, num_workers=cfg.data.workers, pin_memory=True
    )
    trainer = L.Trainer(**cfg.trainer)
    trainer.fit(Cifar(cfg.optimizer.lr, cfg.optimizer.weight_decay), loader)


if __name__ == "__main__":
    main()
