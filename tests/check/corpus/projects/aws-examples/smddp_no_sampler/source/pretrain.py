import argparse
import os

import smdistributed.dataparallel.torch.torch_smddp  # noqa: F401  registers the backend
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from transformers import RobertaConfig, RobertaForMaskedLM

from shards import TokenShards


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch_size", type=int, default=16)
    args = parser.parse_args()
    dist.init_process_group(backend="smddp")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = DDP(RobertaForMaskedLM(RobertaConfig()).cuda(local_rank), device_ids=[local_rank])
    data = TokenShards(os.environ["SM_CHANNEL_TRAIN"])
    loader = DataLoader(data, args.batch_size, shuffle=True, num_workers=8, pin_memory=True, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-4)
    step, epoch = 0, 0
    while step < args.steps:
        for ids in loader:
            ids = ids.cuda(non_blocking=True)
            mask = torch.rand(ids.shape, device=ids.device) < 0.15
            labels = ids.masked_fill(~mask, -100)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(input_ids=ids.masked_fill(mask, 50264), labels=labels).loss
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 100 == 0 and dist.get_rank() == 0:
                print(f"step {step} loss {loss.item():.4f}")
            if step >= args.steps:
                break
        epoch += 1
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "roberta.pt"))


if __name__ == "__main__":
    main()
