import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from app.mixer import mixer


def main():
    device = torch.device("cuda")
    stored = torch.load("/data/imagenette.pt", map_location="cpu", weights_only=True)
    data = TensorDataset(stored["images"], stored["labels"])
    loader = DataLoader(data, batch_size=96, shuffle=True, num_workers=4, pin_memory=True)
    model = mixer().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    for epoch in range(60):
        model.train()
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True).float() / 255, labels.to(device)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.save({"epoch": epoch, "model": model.state_dict()}, "/data/mixer.pt")


if __name__ == "__main__":
    main()
