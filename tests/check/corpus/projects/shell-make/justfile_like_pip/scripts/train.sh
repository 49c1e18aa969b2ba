#!/bin/sh
set -e
TAG=lung:$(date +%Y%m%d)
docker build -t "$TAG" docker
docker run --rm --name lung \
  -e CUDA_VISIBLE_DEVICES= \
  -v /data/lung:/data \
  "$TAG" python train.py
