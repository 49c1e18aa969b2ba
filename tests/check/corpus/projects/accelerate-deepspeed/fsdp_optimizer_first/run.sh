#!/bin/bash
set -e
torchrun --standalone --nproc_per_node=8 train.py
