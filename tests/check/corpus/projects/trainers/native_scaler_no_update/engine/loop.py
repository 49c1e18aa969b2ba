import torch

from engine.amp import Scaler


def fit(model, loader, criterion, epochs, lr=1e-3):
    device = torch.device("cuda")
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    scaler = Scaler()
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            with scaler.autocast():
                loss = criterion(model(images), labels)
            scaler.backward(loss)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            total += loss.item()
        print(f"{epoch}: {total / len(loader):.4f}", flush=True)
    return model
