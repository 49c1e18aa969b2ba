import lightning as L
from depth.frames import Frames
from depth.module import DepthNet
from torch.utils.data import DataLoader

if __name__ == "__main__":
    train = DataLoader(Frames("kitti/train"), batch_size=16, shuffle=True, num_workers=8, pin_memory=True)
    val = DataLoader(Frames("kitti/val"), batch_size=16, num_workers=8, pin_memory=True)
    trainer = L.Trainer(accelerator="gpu", devices=2, strategy="ddp", max_epochs=30)
    trainer.fit(DepthNet(), train, val)
