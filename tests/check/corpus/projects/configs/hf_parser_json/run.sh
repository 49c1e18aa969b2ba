#!/bin/bash
set -e
docker run --rm --gpus all -v "$PWD:/work" -w /work huggingface/transformers-pytorch-gpu:4.35.2 python3 train.py args.json
