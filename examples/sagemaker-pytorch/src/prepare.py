"""Processing job: shifts, turns and scales each training image at random, on the GPU."""

from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import affine_grid, grid_sample

# The destination of an input is the folder itself: its name adds no folder.
INPUT = Path("/opt/ml/processing/input/raw")
OUTPUT = Path("/opt/ml/processing/output/digits")
COPIES = 3
HELD_BACK = 360
"""Images that are never used for training, and not changed."""

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)


def main() -> None:
    with np.load(INPUT / "digits.npz") as raw:
        images, labels = torch.from_numpy(raw["images"])[:, None], raw["labels"]
    order = torch.randperm(len(images))
    held_back, kept = order[:HELD_BACK], order[HELD_BACK:]
    copies = [images[kept], *(changed(images[kept].to(device)).cpu() for _ in range(COPIES))]
    OUTPUT.mkdir(parents=True, exist_ok=True)
    np.savez(OUTPUT / "train.npz", images=torch.cat(copies), labels=np.tile(labels[kept], len(copies)))
    np.savez(OUTPUT / "test.npz", images=images[held_back], labels=labels[held_back])
    print(f"{len(kept)} images became {len(kept) * len(copies)} on {device}", flush=True)


def changed(images: torch.Tensor) -> torch.Tensor:
    """The images, each turned by up to 0.2 rad, scaled by up to 10 % and shifted by up to half a pixel."""
    angle, scale, across, down = (2 * torch.rand(4, len(images), device=images.device) - 1).unbind()
    angle, scale = 0.2 * angle, 1 + 0.1 * scale
    rows = (
        torch.stack([scale * angle.cos(), -scale * angle.sin(), across / 8], dim=1),
        torch.stack([scale * angle.sin(), scale * angle.cos(), down / 8], dim=1),
    )
    grid = affine_grid(torch.stack(rows, dim=1), list(images.shape), align_corners=False)
    return grid_sample(images, grid, align_corners=False)


if __name__ == "__main__":
    main()
