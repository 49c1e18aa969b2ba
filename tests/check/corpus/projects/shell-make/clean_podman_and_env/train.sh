#!/bin/sh
# Podman names GPUs by CDI; docker compose has them in its file; nothing is missing.
set -eu
: "${ENGINE:=podman}"
: "${DEVICES:=0,1}"
export CUDA_DEVICE_ORDER=PCI_BUS_ID
case "$ENGINE" in
  podman) exec podman run --rm --device nvidia.com/gpu=all --shm-size 8g -v "$PWD/data:/data" fields:latest ;;
  docker) exec docker run --rm --gpus "\"device=${DEVICES}\"" --shm-size 8g -v "$PWD/data:/data" fields:latest ;;
  local) CUDA_VISIBLE_DEVICES="$DEVICES" exec torchrun --standalone --nproc_per_node=2 train.py ;;
  *) echo "unknown engine $ENGINE" >&2; exit 2 ;;
esac
