"""Graph batches move as a whole: batch.to(device) returns the moved batch."""

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.datasets import TUDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GIN, global_add_pool

device = torch.device("cuda")


class Classifier(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.gin = GIN(features, 64, 4, dropout=0.2)
        self.head = torch.nn.Linear(64, classes)

    def forward(self, data):
        return self.head(global_add_pool(self.gin(data.x, data.edge_index), data.batch))


def main():
    data = TUDataset("data", "PROTEINS", use_node_attr=True).shuffle()
    train = DataLoader(data[:900], batch_size=64, shuffle=True, num_workers=2)
    test = DataLoader(data[900:], batch_size=128, num_workers=2)
    model = Classifier(data.num_features, data.num_classes).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(100):
        model.train()
        for batch in train:
            batch = batch.to(device)
            loss = cross_entropy(model(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum(int((model(b.to(device)).argmax(1) == b.y.to(device)).sum()) for b in test)
        print(epoch, right / len(test.dataset))


if __name__ == "__main__":
    main()
