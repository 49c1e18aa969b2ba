#!/bin/bash
set -e
nvidia-smi --query-gpu=name,memory.total --format=csv
exec python3 serve.py "$@"
