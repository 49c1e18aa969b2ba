import torch
from rivers.data import Gauges
from rivers.nets import FlowNet
from rivers.train.loop import Loop
from torch.utils.data import DataLoader

if __name__ == "__main__":
    torch.manual_seed(1)
    train = DataLoader(Gauges("data/rhine.npz", 0, 80_000), 256, shuffle=True, num_workers=4)
    val = DataLoader(Gauges("data/rhine.npz", 80_000, 90_000), 512, num_workers=4)
    Loop(FlowNet(), train, val, lr=1e-3).run(30)
