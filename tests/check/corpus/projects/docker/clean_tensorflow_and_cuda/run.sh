#!/usr/bin/env bash
set -euo pipefail
docker build --tag churn .
docker run --rm --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0 -v "$PWD/data:/data" -v "$PWD/out:/out" churn "$@"
