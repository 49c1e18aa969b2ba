import torch
from torch import nn


def fit(accelerator, model, optimizer, loader, epochs):
    criterion = nn.CrossEntropyLoss(ignore_index=255)
    model.train()
    for epoch in range(epochs):
        total = torch.zeros((), device=accelerator.device)
        for images, masks in loader:
            images = images.cuda()
            loss = criterion(model(images)["out"], masks)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            total += loss.detach()
        accelerator.print(epoch, (total / len(loader)).item())
        torch.save(accelerator.unwrap_model(model).state_dict(), "last.pt")
