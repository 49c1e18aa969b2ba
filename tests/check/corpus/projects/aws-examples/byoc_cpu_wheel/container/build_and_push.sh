#!/bin/bash
set -e
name=$1
account=$(aws sts get-caller-identity --query Account --output text)
region=$(aws configure get region)
image="${account}.dkr.ecr.${region}.amazonaws.com/${name}:latest"
aws ecr describe-repositories --repository-names "$name" || aws ecr create-repository --repository-name "$name"
aws ecr get-login-password --region "$region" | docker login --username AWS --password-stdin "${image%%/*}"
docker build -t "$image" container
docker push "$image"
