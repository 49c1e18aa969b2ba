#!/bin/bash
set -euo pipefail
docker build -t style -f docker/Dockerfile .
docker run --rm --gpus all -v "$PWD/pictures:/pictures" style /pictures/content.jpg /pictures/style.jpg /pictures/out.jpg
