import torch
from torch import nn


def build(folder):
    net = nn.Linear(2, 1)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[2.0, 3.0]]))
        net.bias.zero_()
    program = torch.export.export(
        net.eval(), (torch.zeros(4, 2),), dynamic_shapes=({0: torch.export.Dim("batch")},)
    )
    torch.export.save(program, folder / "model.pt2")
