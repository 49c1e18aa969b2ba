import torch
from torch.utils.data import DataLoader

from scan.meter import Meter


class Evaluator:
    def __init__(self, data, device):
        self.data, self.device = data, device
        self.meter = Meter()

    @torch.inference_mode()
    def __call__(self, model):
        model.eval()
        loader = DataLoader(self.data, batch_size=1)
        for images, masks in loader:
            found = model(images.to(self.device)) > 0
            known = masks.to(self.device).bool()
            iou = ((found & known).sum() / (found | known).sum().clamp(min=1)).item()
            self.meter.update(iou, len(images))
        return self.meter.mean
