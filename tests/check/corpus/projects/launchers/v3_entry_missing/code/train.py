import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader

from utterances import Utterances


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    data = Utterances(os.environ["SM_CHANNEL_TRAIN"])
    loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=6, collate_fn=data.collate, pin_memory=True)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(80, 8, 1024, batch_first=True), 6)
    proj = nn.Linear(80, 80)
    net = nn.ModuleDict({"encoder": model, "proj": proj}).cuda()
    opt = torch.optim.AdamW(net.parameters(), 1e-4)
    for epoch in range(args.epochs):
        for mel, mask in loader:
            mel, mask = mel.cuda(non_blocking=True), mask.cuda(non_blocking=True)
            corrupted = mel * (torch.rand_like(mel[..., :1]) > 0.15)
            out = net["proj"](net["encoder"](corrupted, src_key_padding_mask=mask))
            loss = (out - mel).abs()[~mask].mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        print(f"epoch={epoch} loss={loss.item():.4f}")
    torch.save(net.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "encoder.pt"))


if __name__ == "__main__":
    main()
