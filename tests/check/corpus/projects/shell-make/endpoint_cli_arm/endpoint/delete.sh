#!/bin/bash
set -euo pipefail
NAME=${1:?name}
aws sagemaker delete-endpoint --region eu-west-1 --endpoint-name "$NAME"
aws sagemaker delete-endpoint-config --region eu-west-1 --endpoint-config-name "$NAME"
aws sagemaker delete-model --region eu-west-1 --model-name "$NAME"
