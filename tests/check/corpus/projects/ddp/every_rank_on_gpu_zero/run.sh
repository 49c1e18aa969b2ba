#!/bin/bash
set -euo pipefail
torchrun --standalone --nproc_per_node=8 train.py --data /datasets/imagenet --epochs 90
