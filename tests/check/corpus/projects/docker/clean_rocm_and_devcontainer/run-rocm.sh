#!/bin/bash
docker build -f Dockerfile.rocm -t clouds-rocm .
docker run --rm --device=/dev/kfd --device=/dev/dri --group-add video --ipc=host -v /data:/data clouds-rocm
