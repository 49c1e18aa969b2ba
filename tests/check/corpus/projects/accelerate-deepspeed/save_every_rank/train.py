import torch
from accelerate import Accelerator
from segment.engine import fit
from segment.masks import Streets
from torch.utils.data import DataLoader
from torchvision.models.segmentation import deeplabv3_resnet50

if __name__ == "__main__":
    accelerator = Accelerator(mixed_precision="fp16")
    model = deeplabv3_resnet50(weights=None, num_classes=19)
    loader = DataLoader(Streets("/data/streets"), batch_size=8, shuffle=True, num_workers=8, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    fit(accelerator, model, optimizer, loader, epochs=60)
