import os

import torch
from litter.engine import Engine
from torchvision import datasets
from torchvision.transforms import v2

if __name__ == "__main__":
    transform = v2.Compose(
        [v2.RandomResizedCrop(224), v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)]
    )
    data = datasets.ImageFolder(os.environ["SM_CHANNEL_PHOTOS"], transform)
    engine = Engine(len(data.classes))
    engine.fit(data)
    engine.save(os.path.join(os.environ["SM_MODEL_DIR"], "litter.pt"))
