#!/usr/bin/env bash
set -e
deepspeed --num_gpus 8 finetune.py --deepspeed_config configs/zero2.json --data corpus/ids.pt
