#!/bin/bash
set -e
aws s3 sync s3://folding-code /opt/code
cd /opt/code
docker build -t folding .
docker run --rm --gpus all --ipc=host -v /data:/data folding
aws s3 sync /data/out s3://folding-results
shutdown -h now
