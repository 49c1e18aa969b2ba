"""fully_shard in place, then the optimizer; every rank takes part in gathering the weights."""

import os

import torch
import torch.distributed as dist
from net import Layer, Net
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    stored = torch.load("/data/weather.pt", mmap=True, map_location="cpu", weights_only=True)
    data = TensorDataset(stored["now"], stored["later"])
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=6, pin_memory=True)
    with torch.device("meta"):
        model = Net()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for module in model.modules():
        if isinstance(module, Layer):
            fully_shard(module, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.to_empty(device=device)
    model.initialize()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for now, later in loader:
            loss = torch.nn.functional.mse_loss(model(now.to(device)), later.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        torch.save(state, "/data/weather-net.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
