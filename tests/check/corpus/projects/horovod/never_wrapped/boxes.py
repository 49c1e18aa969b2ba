import torch
from torchvision.datasets import CocoDetection
from torchvision.transforms.functional import to_tensor


class Boxes(CocoDetection):
    def __getitem__(self, index):
        image, marks = super().__getitem__(index)
        boxes = torch.tensor([mark["bbox"] for mark in marks], dtype=torch.float32).reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]
        labels = torch.tensor([mark["category_id"] for mark in marks], dtype=torch.int64)
        return to_tensor(image), {"boxes": boxes, "labels": labels}


def collate(rows):
    return tuple(zip(*rows))
