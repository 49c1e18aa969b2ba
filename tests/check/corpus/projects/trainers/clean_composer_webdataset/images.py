import torch
from shards import loader
from torch import nn
from torchvision.models import convnext_small

if __name__ == "__main__":
    model = convnext_small(num_classes=1000).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=0.05)
    batches = loader(64)
    model.train()
    for epoch in range(50):
        for images, labels in batches:
            images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), flush=True)
        torch.save(model.state_dict(), "convnext.pt")
