#!/bin/bash
torchrun --standalone --nproc_per_node 8 pretrain.py --tokens /fsx/corpus/train.bin
