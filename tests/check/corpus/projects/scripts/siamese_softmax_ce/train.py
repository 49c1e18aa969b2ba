import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

from model import Classifier

with open("settings.yaml") as f:
    cfg = yaml.safe_load(f)

tf = transforms.Compose([transforms.Resize((224, 224)), transforms.ToTensor()])
train = ImageFolder(cfg["train_dir"], tf)
valid = ImageFolder(cfg["valid_dir"], tf)
train_loader = DataLoader(train, cfg["batch_size"], shuffle=True, num_workers=cfg["workers"])
valid_loader = DataLoader(valid, cfg["batch_size"], num_workers=cfg["workers"])

device = torch.device("cuda")
model = Classifier(len(train.classes)).to(device)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=cfg["lr"], momentum=0.9)

for epoch in range(cfg["epochs"]):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
    model.eval()
    hits = 0
    with torch.no_grad:
        for x, y in valid_loader:
            hits += (model(x.to(device)).argmax(1).cpu() == y).sum().item()
    print(f"epoch {epoch}: accuracy {hits / len(valid):.3f}")
torch.save(model.state_dict(), cfg["out"])
