import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda")  # ROCm's build of torch calls it cuda, too
stored = torch.load("/data/clouds.pt", map_location="cpu", weights_only=True)
loader = DataLoader(
    TensorDataset(stored["images"], stored["cover"]), 64, shuffle=True, num_workers=4, pin_memory=True
)
net = nn.Sequential(
    nn.Conv2d(13, 64, 3, 2), nn.ReLU(), nn.Conv2d(64, 128, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    nn.Linear(128, 1),
).to(device)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for epoch in range(30):
    for images, cover in loader:
        loss = nn.functional.mse_loss(net(images.to(device).float()).squeeze(1), cover.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), flush=True)
torch.save(net.state_dict(), "/data/clouds-net.pt")
