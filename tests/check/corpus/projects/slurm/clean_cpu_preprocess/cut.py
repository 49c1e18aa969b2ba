import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import torch
from torchvision.io import read_video
from torchvision.transforms.functional import resize


def cut(target, path):
    frames, _, _ = read_video(str(path), pts_unit="sec", output_format="TCHW")
    clips = [resize(part, [112, 112], antialias=True) for part in frames.split(16) if len(part) == 16]
    for number, clip in enumerate(clips):
        torch.save(clip, target / f"{path.parent.name}__{path.stem}-{number:04d}.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--jobs", type=int, default=8)
    args = parser.parse_args()
    args.target.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(args.jobs) as pool:
        list(pool.map(partial(cut, args.target), args.source.rglob("*.mp4")))
