"""Fine-tune a ResNet on a folder of images, with mixed precision, on all GPUs of the host."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from dataset import build_loaders
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torchvision.models import ResNet50_Weights, resnet50


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--classes", type=int, default=102)
    parser.add_argument("--data", default=os.environ["SM_CHANNEL_TRAINING"])
    parser.add_argument("--model-dir", default=os.environ["SM_MODEL_DIR"])
    parser.add_argument("--checkpoint-dir", default="/opt/ml/checkpoints")
    return parser.parse_args()


def train_epoch(model, loader, criterion, optimizer, scaler, device):
    model.train()
    total, seen = 0.0, 0
    for images, labels in loader:
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(images), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        total += loss.item() * images.size(0)
        seen += images.size(0)
    return total / seen


@torch.inference_mode()
def evaluate(model, loader, device):
    model.eval()
    correct = torch.zeros(2, device=device)
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        predicted = model(images).argmax(1)
        correct += torch.stack([(predicted == labels).sum(), torch.tensor(labels.numel(), device=device)])
    dist.all_reduce(correct)
    return (correct[0] / correct[1]).item()


def main():
    args = parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    device = torch.device("cuda", local_rank)
    torch.backends.cudnn.benchmark = True

    train_loader, train_sampler, test_loader = build_loaders(args.data, args.batch_size, args.workers)
    model = resnet50(weights=ResNet50_Weights.DEFAULT)
    model.fc = nn.Linear(model.fc.in_features, args.classes)
    model = DistributedDataParallel(model.to(device), device_ids=[local_rank])
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=args.weight_decay)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    scaler = torch.amp.GradScaler("cuda")

    first = 0
    checkpoint = os.path.join(args.checkpoint_dir, "last.pt")
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        first = state["epoch"] + 1

    for epoch in range(first, args.epochs):
        begun = time.perf_counter()
        train_sampler.set_epoch(epoch)
        loss = train_epoch(model, train_loader, criterion, optimizer, scaler, device)
        accuracy = evaluate(model, test_loader, device)
        scheduler.step()
        if dist.get_rank() == 0:
            seconds = time.perf_counter() - begun
            print(f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy:.4f}, {seconds:.0f} s")
            torch.save(
                {
                    "model": model.module.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(),
                    "epoch": epoch,
                },
                checkpoint,
            )
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), os.path.join(args.model_dir, "model.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
