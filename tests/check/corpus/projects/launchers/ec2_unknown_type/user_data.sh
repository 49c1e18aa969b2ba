#!/bin/bash
set -euxo pipefail
trap 'shutdown -h now' EXIT
python3 -m venv /opt/train
/opt/train/bin/pip install "torch==2.5.1" "torchvision==0.20.1"
aws s3 cp --recursive "s3://@BUCKET@/code" /opt/train/code
cd /opt/train/code
/opt/train/bin/python train.py --out model.pt
aws s3 cp model.pt "s3://@BUCKET@/models/$(date +%s)/model.pt"
