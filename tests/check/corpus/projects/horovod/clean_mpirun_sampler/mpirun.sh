#!/bin/bash
set -euo pipefail
HOSTS=gpu01:8,gpu02:8
mpirun -np 16 -H "$HOSTS" -bind-to none -map-by slot \
  -x NCCL_DEBUG=INFO -x LD_LIBRARY_PATH -x PATH \
  -mca pml ob1 -mca btl ^openib \
  python -m speaker.train --data /shared/voxceleb --epochs 24
