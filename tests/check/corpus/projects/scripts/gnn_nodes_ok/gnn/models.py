import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

MODELS = {}


def register(name):
    def add(cls):
        MODELS[name] = cls
        return cls

    return add


class Stack(nn.Module):
    conv = GCNConv

    def __init__(self, features, hidden, classes, depth=3, dropout=0.5):
        super().__init__()
        sizes = [features] + [hidden] * (depth - 1) + [classes]
        self.layers = nn.ModuleList(self.conv(a, b) for a, b in zip(sizes, sizes[1:]))
        self.dropout = dropout

    def forward(self, x, edge_index):
        for layer in self.layers[:-1]:
            x = F.dropout(layer(x, edge_index).relu(), self.dropout, self.training)
        return self.layers[-1](x, edge_index)


@register("gcn")
class GCN(Stack):
    conv = GCNConv


@register("sage")
class SAGE(Stack):
    conv = SAGEConv


@register("gat")
class GAT(Stack):
    conv = GATConv


def create(name, **options):
    return MODELS[name](**options)
