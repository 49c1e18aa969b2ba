import torch
import torch.nn.functional as F
from torch_geometric.datasets import Planetoid
from torch_geometric.nn import GCNConv


class GCN(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.first = GCNConv(features, 64)
        self.second = GCNConv(64, classes)

    def forward(self, data):
        x = F.relu(self.first(data.x, data.edge_index))
        return self.second(F.dropout(x, training=self.training), data.edge_index)


device = "cpu"
dataset = Planetoid("/tmp/planetoid", "PubMed")
data = dataset[0].to(device)
model = GCN(dataset.num_features, dataset.num_classes).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
model.train()
for epoch in range(200):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(data)[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    found = model(data).argmax(1)
print("accuracy", (found == data.y)[data.test_mask].float().mean().item())
