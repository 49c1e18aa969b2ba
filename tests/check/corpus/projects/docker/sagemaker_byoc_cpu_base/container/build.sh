#!/bin/bash
set -euo pipefail
REGISTRY=123456789012.dkr.ecr.us-east-1.amazonaws.com
aws ecr get-login-password --region us-east-1 | docker login --username AWS --password-stdin "$REGISTRY"
docker build -t "$REGISTRY/sales:4" .
docker push "$REGISTRY/sales:4"
