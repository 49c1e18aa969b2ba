#!/bin/bash
set -euo pipefail
deepspeed --num_nodes 1 --num_gpus 8 tune.py --deepspeed --deepspeed_config ds.json --output /data/out
