"""Molecular dynamics of Lennard-Jones particles, on the GPU as a whole."""

import argparse

import torch


def forces(positions, box):
    difference = positions[:, None] - positions[None]
    difference = difference - box * torch.round(difference / box)
    square = difference.square().sum(-1).fill_diagonal_(1.0)
    sixth = square.pow(-3)
    strength = (24 * (2 * sixth.square() - sixth) / square).fill_diagonal_(0.0)
    return (strength.unsqueeze(-1) * difference).sum(1)


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    args = parser.parse_args()
    device = torch.device("cuda")
    box, dt = 12.0, 0.002
    grid = torch.linspace(0.5, box - 0.5, 8, device=device)
    positions = torch.cartesian_prod(grid, grid, grid)
    velocities = torch.randn_like(positions)
    force = forces(positions, box)
    for step in range(args.steps):
        velocities += 0.5 * dt * force
        positions = (positions + dt * velocities) % box
        force = forces(positions, box)
        velocities += 0.5 * dt * force
        if step % 10_000 == 0:
            print(step, velocities.square().sum().item() / 2, flush=True)


if __name__ == "__main__":
    main()
