#!/bin/bash
cd "$(dirname "$0")/.."
GRES=gpu:0 TIME=01:00:00 bin/submit prepare python prepare.py /data/calls
bin/submit train python train.py --epochs 80
GRES=gpu:2 CPUS=16 bin/submit train2 torchrun --standalone --nproc_per_node=2 train.py --epochs 80
