import os

import torch
import torch.distributed as dist
from corpus import Corpus
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader


class Model(nn.Module):
    def __init__(self, words=50_304, width=512):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.rnn = nn.LSTM(width, width, 3, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])


if __name__ == "__main__":
    dist.init_process_group("nccl")
    gpu = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(gpu)
    corpus = Corpus("/scratch/owt.bin", 512)
    train = DataLoader(corpus, batch_size=24, shuffle=True, num_workers=4, pin_memory=True, drop_last=True)
    model = DistributedDataParallel(Model().cuda(gpu), device_ids=[gpu])
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4)
    for epoch in range(2):
        for step, (ids, following) in enumerate(train):
            ids, following = ids.cuda(gpu, non_blocking=True), following.cuda(gpu, non_blocking=True)
            loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), following.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if step % 100 == 0 and dist.get_rank() == 0:
                print(epoch, step, loss.item())
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "lm.pt")
    dist.destroy_process_group()
