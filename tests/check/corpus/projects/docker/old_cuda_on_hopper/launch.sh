#!/bin/bash
# Starts the container on the reserved host.
set -euo pipefail
aws ec2 run-instances \
  --region us-east-2 \
  --instance-type p5.48xlarge \
  --image-id resolve:ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id \
  --key-name research \
  --subnet-id subnet-0a1b2c3d4e5f60718 \
  --instance-initiated-shutdown-behavior terminate \
  --user-data file://userdata.sh
