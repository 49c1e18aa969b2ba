import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models.video import r3d_18


class Clips(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("*.pt"))
        self.names = sorted({path.name.split("__")[0] for path in self.paths})

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        clip = torch.load(path, map_location="cpu", weights_only=True).float() / 255
        return clip.transpose(0, 1), self.names.index(path.name.split("__")[0])


def main():
    assert torch.cuda.is_available(), "no GPU"
    data = Clips(sys.argv[1])
    loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=12, pin_memory=True)
    model = r3d_18(num_classes=len(data.names)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    model.train()
    for epoch in range(45):
        for clips, labels in loader:
            clips, labels = clips.cuda(non_blocking=True), labels.cuda(non_blocking=True)
            with torch.autocast("cuda", torch.float16):
                loss = nn.functional.cross_entropy(model(clips), labels)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        torch.save(model.state_dict(), f"r3d-{epoch:02d}.pt")


if __name__ == "__main__":
    main()
