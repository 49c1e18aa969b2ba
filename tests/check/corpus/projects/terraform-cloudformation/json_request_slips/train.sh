#!/bin/bash
set -euo pipefail
tar czf source.tar.gz -C src .
aws s3 cp source.tar.gz s3://traffic-123456789012/code/source.tar.gz
aws sagemaker create-training-job --region us-east-1 --cli-input-json file://requests/train.json
