#!/bin/bash
set -euo pipefail
NAME=embed-$(date +%s)
aws sagemaker create-processing-job \
  --region us-east-1 \
  --processing-job-name "$NAME" \
  --role-arn arn:aws:iam::123456789012:role/Embedding \
  --processing-resources ClusterConfig="{InstanceType=ml.g5.2xlarge,InstanceCount=2,VolumeSizeInGB=100}" \
  --app-specification file://scripts/app.json \
  --processing-inputs file://scripts/inputs.json \
  --processing-output-config file://scripts/outputs.json \
  --stopping-condition MaxRuntimeInSeconds=14400
