"""Several processes update one shared model without locks."""

import argparse

import torch
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--num-processes", type=int, default=2)
parser.add_argument("--cuda", action="store_true", default=False)
parser.add_argument("--save_model", action="store_true", default=False)


def work(rank, args, model, device, dataset):
    torch.manual_seed(rank)
    loader = torch.utils.data.DataLoader(dataset, batch_size=64, num_workers=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(args.epochs):
        model.train()
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    args = parser.parse_args()
    use_cuda = args.cuda and torch.cuda.is_available()
    device = torch.device("cuda" if use_cuda else "cpu")
    mp.set_start_method("spawn", force=True)
    dataset = datasets.MNIST("../data", download=True, transform=transforms.ToTensor())
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
    model.share_memory()
    workers = []
    for rank in range(args.num_processes):
        worker = mp.Process(target=work, args=(rank, args, model, device, dataset))
        worker.start()
        workers.append(worker)
    for worker in workers:
        worker.join()
    if args.save_model:
        torch.save(model.state_dict(), "shared.pt")
