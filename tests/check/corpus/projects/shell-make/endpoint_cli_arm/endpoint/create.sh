#!/bin/bash
set -euo pipefail
REGION=eu-west-1
NAME=toxicity-$(date +%Y%m%d%H%M)
ROLE=arn:aws:iam::123456789012:role/Endpoints
MODEL=s3://toxicity-models/2025-02/model.tar.gz
IMAGE=763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch-inference:2.1.0-gpu-py310-cu118-ubuntu20.04-sagemaker

aws sagemaker create-model \
  --region "$REGION" \
  --model-name "$NAME" \
  --execution-role-arn "$ROLE" \
  --primary-container Image="$IMAGE",ModelDataUrl="$MODEL"

aws sagemaker create-endpoint-config \
  --region "$REGION" \
  --endpoint-config-name "$NAME" \
  --production-variants VariantName=main,ModelName="$NAME",InitialInstanceCount=1,InstanceType=ml.m7g.2xlarge

aws sagemaker create-endpoint --region "$REGION" --endpoint-name "$NAME" --endpoint-config-name "$NAME"
aws sagemaker wait endpoint-in-service --region "$REGION" --endpoint-name "$NAME"
