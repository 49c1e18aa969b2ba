import torch
from torch import nn
from torch.utils.data import DataLoader

from scan.eval import Evaluator


def fit(model, train, val, epochs=40):
    device = torch.device("cuda")
    model = model.to(device)
    evaluate = Evaluator(val, device)
    loader = DataLoader(train, batch_size=8, shuffle=True, num_workers=8, pin_memory=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    criterion = nn.BCEWithLogitsLoss()
    best = 0.0
    for epoch in range(epochs):
        model.train()
        for images, masks in loader:
            loss = criterion(model(images.to(device)), masks.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        iou = evaluate(model)
        print(f"{epoch}: {iou:.4f}", flush=True)
        if iou > best:
            best = iou
            torch.save(model.state_dict(), "scan.pt")
