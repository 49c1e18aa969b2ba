#!/bin/bash
set -euo pipefail
export CUDA_VISIBLE_DEVICES=0
export OMP_NUM_THREADS=4
torchrun --standalone --nproc_per_node=4 train.py --out runs/sr
CUDA_VISIBLE_DEVICES="" python evaluate.py runs/sr/model.pt
