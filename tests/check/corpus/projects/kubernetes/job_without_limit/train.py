import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms


def main():
    device = torch.device("cuda")
    transform = transforms.Compose([transforms.Resize((512, 512)), transforms.ToTensor()])
    data = datasets.ImageFolder("/data/train", transform)
    loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=6, pin_memory=True)
    model = models.densenet121(weights="DEFAULT")
    model.classifier = nn.Linear(1024, len(data.classes))
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    target = []
    for epoch in range(20):
        model.train()
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            target.append(loss)
        print(epoch, sum(target[-len(loader) :]).item() / len(loader), flush=True)
        torch.save(model.state_dict(), "/data/densenet.pt")


if __name__ == "__main__":
    main()
