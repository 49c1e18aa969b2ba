#!/bin/bash
accelerate launch --multi_gpu --num_processes 4 --mixed_precision fp16 train.py
