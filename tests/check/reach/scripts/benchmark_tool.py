"""Measures a forward pass; profiling and export are subcommands that a job rarely uses."""

import argparse
import time

import torch
import torchvision


def benchmark(model, batch, repeats):
    with torch.inference_mode():
        for _ in range(10):
            model(batch)
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(repeats):
            model(batch)
        torch.cuda.synchronize()
    return repeats * len(batch) / (time.perf_counter() - started)


def export(model, batch):
    torch.onnx.export(model, batch, "resnet.onnx")
    torch.save(model.state_dict(), "resnet.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", nargs="?", choices=["benchmark", "export"], default="benchmark")
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--channels-last", action="store_true")
    args = parser.parse_args()
    model = torchvision.models.resnet50().cuda().eval()
    batch = torch.randn(64, 3, 224, 224, device="cuda")
    if args.channels_last:
        model, batch = model.to(memory_format=torch.channels_last), batch.to(memory_format=torch.channels_last)
    if args.mode == "export":
        export(model, batch)
    else:
        print(f"{benchmark(model, batch, args.repeats):.0f} images/s")
