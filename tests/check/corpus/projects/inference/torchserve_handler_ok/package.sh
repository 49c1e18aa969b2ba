#!/bin/bash
set -euo pipefail
torch-model-archiver --model-name segment --version 1.0 --serialized-file segment.ts \
  --handler handler/segment.py --export-path store --force
torchserve --start --ncs --model-store store --models segment=segment.mar --disable-token-auth
