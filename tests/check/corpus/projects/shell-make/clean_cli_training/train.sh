#!/bin/bash
# Variables, a here document and jq-free JSON: the request is complete and right.
set -euo pipefail
: "${ROLE:=arn:aws:iam::123456789012:role/SageMakerTraining}"
REGION=us-east-2
NAME="pollen-$(date -u +%Y%m%dT%H%M%S)"
BUCKET=s3://pollen-123456789012
IMAGE=763104351884.dkr.ecr.us-east-2.amazonaws.com/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker
tar -czf source.tar.gz -C src .
aws s3 cp source.tar.gz "$BUCKET/code/$NAME.tar.gz"
cat > request.json <<JSON
{
  "TrainingJobName": "$NAME",
  "RoleArn": "$ROLE",
  "AlgorithmSpecification": {"TrainingImage": "$IMAGE", "TrainingInputMode": "File"},
  "HyperParameters": {
    "sagemaker_program": "train.py",
    "sagemaker_submit_directory": "$BUCKET/code/$NAME.tar.gz",
    "epochs": "15"
  },
  "InputDataConfig": [
    {
      "ChannelName": "pollen",
      "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "$BUCKET/images"}}
    }
  ],
  "OutputDataConfig": {"S3OutputPath": "$BUCKET/models"},
  "ResourceConfig": {"InstanceType": "ml.g4dn.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 50},
  "StoppingCondition": {"MaxRuntimeInSeconds": 7200}
}
JSON
aws sagemaker create-training-job --region "$REGION" --cli-input-json file://request.json
