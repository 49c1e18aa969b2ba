#!/bin/bash
# Builds images for CPUs and GPUs from one Dockerfile; the index is an argument.
set -euo pipefail
for flavour in cpu cu124; do
  docker build \
    --build-arg TORCH_INDEX="https://download.pytorch.org/whl/$flavour" \
    -t "registry.example.org/ocr:2.1-$flavour" .
  docker push "registry.example.org/ocr:2.1-$flavour"
done
