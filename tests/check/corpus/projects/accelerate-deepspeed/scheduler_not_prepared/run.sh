#!/bin/bash
set -euo pipefail
accelerate launch --config_file accelerate.yaml train.py --epochs 5
