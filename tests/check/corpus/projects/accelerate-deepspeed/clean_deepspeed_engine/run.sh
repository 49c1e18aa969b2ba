#!/bin/bash
# 8 GPUs x 8 rows x 4 steps = 256 rows a batch.
set -euo pipefail
cd "$(dirname "$0")"
deepspeed --num_gpus=8 pretrain.py --deepspeed --deepspeed_config ds_config.json
