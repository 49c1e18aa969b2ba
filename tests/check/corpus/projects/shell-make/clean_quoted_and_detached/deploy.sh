#!/usr/bin/env bash
# Rolls the service out on a GPU host. The database beside it runs without GPUs.
set -euo pipefail
HOST=${1:?host}
TAG=$(git rev-parse --short HEAD)
IMAGE=registry.example.org/search/api:$TAG

docker build -t "$IMAGE" .
docker run --rm "$IMAGE" python -c "import api"
docker push "$IMAGE"

ssh "$HOST" bash -s <<REMOTE
set -e
docker pull $IMAGE
docker network create search 2>/dev/null || true
docker rm -f api postgres 2>/dev/null || true
docker run -d --name postgres --network search -v pg:/var/lib/postgresql/data -e POSTGRES_HOST_AUTH_METHOD=trust postgres:16
docker run -d --name api --network search --gpus device=1 -p 80:8000 $IMAGE
REMOTE
