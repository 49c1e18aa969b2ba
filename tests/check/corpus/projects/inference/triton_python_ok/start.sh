#!/bin/bash
docker run --gpus all --rm -p 8000:8000 -v "$PWD/model_repository:/models" \
  nvcr.io/nvidia/tritonserver:24.10-py3 tritonserver --model-repository=/models
