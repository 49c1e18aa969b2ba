import argparse
import csv

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.io import decode_image
from torchvision.models import resnet50


class Listed(Dataset):
    """Images of a CSV file with the columns file and label."""

    def __init__(self, path):
        with open(path, newline="") as f:
            self.rows = list(csv.DictReader(f))
        self.transform = transforms.Compose([transforms.Resize((224, 224)), transforms.ConvertImageDtype(torch.float32)])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        return row["file"], self.transform(decode_image(row["file"], "RGB")), int(row["label"])


@torch.inference_mode()
def predict(model, loader, device, out):
    model.eval()
    with open(out, "w") as f:
        for name, x, y in loader:
            for file, label in zip(name, model(x.to(device)).argmax(1).tolist()):
                print(file, label, sep=",", file=f)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("train_csv")
    parser.add_argument("test_csv")
    parser.add_argument("--classes", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    device = torch.device("cuda:0")
    model = resnet50(weights="IMAGENET1K_V2")
    model.fc = nn.Linear(model.fc.in_features, args.classes)
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    loader = DataLoader(Listed(args.train_csv), 64, shuffle=True, num_workers=8, pin_memory=True)
    for epoch in range(args.epochs):
        model.train()
        for _, x, y in loader:
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            optimizer.step()
        print("epoch", epoch, "loss", round(loss.item(), 4))
    predict(model, DataLoader(Listed(args.test_csv), 128, num_workers=8, pin_memory=True), device, "predictions.csv")
    torch.save(model.state_dict(), "adapted.pt")


if __name__ == "__main__":
    main()
