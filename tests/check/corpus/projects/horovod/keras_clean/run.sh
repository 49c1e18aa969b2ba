#!/bin/bash
set -euo pipefail
horovodrun -np 8 -H localhost:8 python train_keras.py --epochs 40
