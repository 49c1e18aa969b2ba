"""A script as users write it, which the benchmark traces: trains a timm model, or calls it.

`--channels-last` and `--old` make it what the measured tables say: `--old` is for those from before PyTorch 2, where attention was two
products with a softmax between them, and optimizers had kernels for each parameter.
"""

# pyright: reportMissingImports=false

import argparse

import timm
import timm.layers
import torch

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--size", type=int)
parser.add_argument("--amp", action="store_true")
parser.add_argument("--inference", action="store_true")
parser.add_argument("--channels-last", action="store_true")
parser.add_argument("--old", action="store_true")
parser.add_argument("--fast-norm", action="store_true")
options = parser.parse_args()

timm.layers.set_fused_attn(not options.old)
timm.layers.set_fast_norm(options.fast_norm)
layout = torch.channels_last if options.channels_last else torch.contiguous_format
model = timm.create_model(options.model, num_classes=1000, pretrained=False)
model = model.to("cuda", memory_format=layout)
size = (3, options.size, options.size) if options.size else model.default_cfg["input_size"]
x = torch.randn(options.batch, *size, device="cuda").to(memory_format=layout)
if options.inference:
    model.eval()
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16, enabled=options.amp):
        for _ in range(3):
            model(x)
else:
    y = torch.randint(0, 1000, (options.batch,), device="cuda")
    foreach = False if options.old else None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=foreach)
    loss_function = torch.nn.CrossEntropyLoss().cuda()
    scaler = torch.amp.GradScaler("cuda", enabled=options.amp)
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=options.amp):
            loss = loss_function(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
