import torch
import torch.distributed as dist
from ranks import join
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def load(path):
    stored = torch.load(path, map_location="cpu", weights_only=True)
    return TensorDataset(stored["x"], stored["y"])


def main():
    rank, device = join()
    data = load("/lustre/turbulence.pt")
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=16, sampler=sampler, num_workers=5, pin_memory=True)
    net = nn.Sequential(nn.Conv3d(4, 64, 3, padding=1), nn.GELU(), nn.Conv3d(64, 4, 3, padding=1)).to(device)
    net = DistributedDataParallel(net, device_ids=[device.index])
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(50):
        sampler.set_epoch(epoch)
        total = torch.zeros(1, device=device)
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            loss = nn.functional.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(epoch, total.item() / len(loader) / dist.get_world_size(), flush=True)
            torch.save(net.module.state_dict(), "/lustre/out/net.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
