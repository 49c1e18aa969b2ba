"""Object detection in the style of reference scripts: options for everything."""

import datetime
import os
import time

import torch
import torch.utils.data
import torchvision
from torchvision.datasets import FakeData
from torchvision.transforms import ToTensor


def get_args_parser(add_help=True):
    import argparse

    parser = argparse.ArgumentParser(description="detection", add_help=add_help)
    parser.add_argument("--device", default="cuda", type=str)
    parser.add_argument("--epochs", default=26, type=int)
    parser.add_argument("--workers", default=4, type=int)
    parser.add_argument("--output-dir", default="", type=str, help="where to save checkpoints")
    parser.add_argument("--resume", default="", type=str)
    parser.add_argument("--test-only", dest="test_only", action="store_true")
    return parser


def evaluate(model, loader, device):
    model.eval()
    cpu_device = torch.device("cpu")
    with torch.inference_mode():
        for images, _ in loader:
            outputs = model([image.to(device) for image in images])
            outputs = [{k: v.to(cpu_device) for k, v in t.items()} for t in outputs]
    return outputs


def train_one_epoch(model, optimizer, loader, device):
    model.train()
    for images, labels in loader:
        images = [image.to(device) for image in images]
        targets = [{"labels": labels.to(device), "boxes": torch.ones(len(labels), 4).to(device)}]
        losses = sum(loss for loss in model(images, targets).values())
        optimizer.zero_grad()
        losses.backward()
        optimizer.step()


def main(args):
    if args.output_dir:
        os.makedirs(args.output_dir, exist_ok=True)
    device = torch.device(args.device)
    data = FakeData(100, transform=ToTensor())
    loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=args.workers)
    model = torchvision.models.detection.fasterrcnn_resnet50_fpn(num_classes=91)
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    if args.resume:
        checkpoint = torch.load(args.resume, map_location="cpu", weights_only=True)
        model.load_state_dict(checkpoint["model"])
    if args.test_only:
        torch.backends.cudnn.deterministic = True
        evaluate(model, loader, device=device)
        return
    start_time = time.time()
    for epoch in range(args.epochs):
        train_one_epoch(model, optimizer, loader, device)
        if args.output_dir:
            torch.save({"model": model.state_dict()}, os.path.join(args.output_dir, f"model_{epoch}.pth"))
        evaluate(model, loader, device=device)
    print(f"Training time {datetime.timedelta(seconds=int(time.time() - start_time))}")


if __name__ == "__main__":
    args = get_args_parser().parse_args()
    main(args)
