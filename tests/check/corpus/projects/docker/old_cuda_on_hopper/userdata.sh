#!/bin/bash
docker run --rm --gpus all --ipc host -v /mnt/data:/data 123456789012.dkr.ecr.us-east-2.amazonaws.com/climate:v3
shutdown -h now
