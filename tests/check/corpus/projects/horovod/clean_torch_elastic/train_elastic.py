"""Elastic Horovod: the state broadcasts model and optimizer, and the sampler reshards itself."""

import horovod.torch as hvd
import torch
from horovod.torch.elastic import ElasticSampler
from numbers_data import Numbers
from torch import nn

EPOCHS = 40


def build():
    return nn.Sequential(
        nn.Conv1d(1, 64, 7), nn.ReLU(), nn.AdaptiveAvgPool1d(16), nn.Flatten(), nn.Linear(1024, 5)
    )


def main():
    hvd.init()
    device = torch.device("cuda", hvd.local_rank())
    torch.cuda.set_device(device)
    data = Numbers("/data/signals.pt")
    sampler = ElasticSampler(data)
    loader = torch.utils.data.DataLoader(data, batch_size=128, sampler=sampler, num_workers=4)
    model = build().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    criterion = nn.CrossEntropyLoss()

    @hvd.elastic.run
    def train(state):
        while state.epoch < EPOCHS:
            state.sampler.set_epoch(state.epoch)
            for number, (signals, labels) in enumerate(loader):
                optimizer.zero_grad()
                loss = criterion(model(signals.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
                state.sampler.record_batch(number, 128)
                if number % 50 == 0:
                    state.commit()
            state.epoch += 1
            state.commit()

    def on_reset():
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * hvd.size()

    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0)
    state.register_reset_callbacks([on_reset])
    train(state)
    if hvd.rank() == 0:
        torch.save(model.state_dict(), "/data/out/signals.pt")


if __name__ == "__main__":
    main()
