#!/bin/bash
docker build -t detect .
docker run --rm --gpus all --shm-size 16g -v /data:/data detect
