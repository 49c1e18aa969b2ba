import argparse

import torch
from torch.utils.data import DataLoader
from torchmetrics.detection import MeanAveragePrecision
from torchvision.datasets import CocoDetection, wrap_dataset_for_transforms_v2
from torchvision.models.detection import fasterrcnn_resnet50_fpn_v2
from torchvision.transforms import v2


def collate(batch):
    return tuple(zip(*batch))


def coco(folder, annotations):
    tf = v2.Compose([v2.ToImage(), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True)])
    return wrap_dataset_for_transforms_v2(CocoDetection(folder, annotations, transforms=tf), ["boxes", "labels"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", nargs=2, required=True)
    parser.add_argument("--val", nargs=2, required=True)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--classes", type=int, default=91)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(coco(*args.train), 8, shuffle=True, num_workers=8, collate_fn=collate)
    val = DataLoader(coco(*args.val), 8, num_workers=8, collate_fn=collate)
    model = fasterrcnn_resnet50_fpn_v2(weights=None, num_classes=args.classes).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    metric = MeanAveragePrecision()
    model.train()
    for epoch in range(args.epochs):
        for images, targets in train:
            images = [image.to(device) for image in images]
            targets = [{name: value.to(device) for name, value in target.items()} for target in targets]
            losses = model(images, targets)
            loss = sum(losses.values())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for images, targets in val:
                predictions = model([image.to(device) for image in images])
                metric.update([{k: v.cpu() for k, v in p.items()} for p in predictions], list(targets))
        print(f"epoch {epoch}: map {metric.compute()['map']:.4f}")
        metric.reset()
        torch.save(model.state_dict(), "detector.pt")


if __name__ == "__main__":
    main()
