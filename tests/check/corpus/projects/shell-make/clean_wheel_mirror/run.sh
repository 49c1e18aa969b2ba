#!/bin/bash
set -euo pipefail
if command -v nvidia-smi >/dev/null; then
  docker run --rm --gpus all -p 8000:8000 registry.example.org/ocr:2.1-cu124
else
  docker run --rm -p 8000:8000 registry.example.org/ocr:2.1-cpu
fi
