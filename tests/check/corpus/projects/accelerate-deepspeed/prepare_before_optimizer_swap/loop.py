import torch
from torch import nn


def run(accelerator, model, loader, epochs):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        if epoch == epochs // 2:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        model.train()
        for images, labels in loader:
            loss = criterion(model(images), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.save_state("state")
