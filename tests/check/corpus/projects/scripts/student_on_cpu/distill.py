"""Knowledge distillation from a ResNet-101 into a MobileNet."""
import argparse
import os

import torch
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader
from torchvision import transforms


def build(name, classes):
    return torchvision.models.get_model(name, num_classes=classes)


def kd_loss(s, t, y, temperature, alpha):
    soft = F.kl_div(F.log_softmax(s / temperature, 1), F.softmax(t / temperature, 1), reduction="batchmean")
    return alpha * temperature**2 * soft + (1 - alpha) * F.cross_entropy(s, y)


def accuracy(model, loader, device):
    model.eval()
    with torch.no_grad():
        hits = sum((model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in loader)
    return hits / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--teacher", default="resnet101")
    parser.add_argument("--teacher-weights", required=True)
    parser.add_argument("--student", default="mobilenet_v3_small")
    parser.add_argument("--epochs", type=int, default=60)
    args = parser.parse_args()
    device = torch.device("cuda:0")

    tf = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    val_tf = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()])
    train = torchvision.datasets.ImageFolder(os.path.join(args.data, "train"), tf)
    val = torchvision.datasets.ImageFolder(os.path.join(args.data, "val"), val_tf)
    train_loader = DataLoader(train, 128, shuffle=True, num_workers=8, pin_memory=True)
    val_loader = DataLoader(val, 256, num_workers=8, pin_memory=True)

    teacher = build(args.teacher, len(train.classes))
    teacher.load_state_dict(torch.load(args.teacher_weights, map_location="cpu", weights_only=True))
    teacher.to(device).eval()
    teacher.requires_grad_(False)
    student = build(args.student, len(train.classes))
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)

    best = 0.0
    for epoch in range(args.epochs):
        student.train()
        for x, y in train_loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with torch.no_grad():
                t_logits = teacher(x)
            loss = kd_loss(student(x), t_logits, y, 4.0, 0.7)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        score = accuracy(student, val_loader, device)
        if score > best:
            best = score
            torch.save(student.state_dict(), "student.pt")
        print(f"epoch {epoch} accuracy {score:.4f} best {best:.4f}")
    student.load_state_dict(torch.load("student.pt", weights_only=True))
    print("final", accuracy(student, val_loader, device))


if __name__ == "__main__":
    main()
