#!/bin/sh
# The job's program: train.py, and GPUproof's verdict on it.
exec python gpuproof-agent.pyz watch --to "$VERDICTS" -- python train.py "$@"
