#!/usr/bin/env bash
# Trains a small CNN with `gpuproof run`, pulls the model, evaluates it on held-back digits, then serves it like a
# SageMaker endpoint and evaluates it again over HTTP.
# `examples/demo.sh pytorch-digits` does the same with PyTorch.
set -euo pipefail
job="${1:-keras-digits}"
cd "$(dirname "${BASH_SOURCE[0]}")/$job"
scratch="$(mktemp -d)"
server=
tidy_up() {
  if [ -n "$server" ]; then kill "$server" && wait "$server" || true; fi
  rm -rf "$scratch"
}
trap tidy_up EXIT

printf '$ gpuproof run\n'
gpuproof run
printf '\n$ gpuproof pull %s --to pulled\n' "$job"
gpuproof pull "$job" --to "$scratch/pulled"
printf '\n$ python evaluate.py pulled/model.tar.gz\n'
PYTHONDONTWRITEBYTECODE=1 python evaluate.py "$scratch/pulled/model.tar.gz"

port="$(python -c 'import socket; free = socket.create_server(("127.0.0.1", 0)); print(free.getsockname()[1])')"
printf '\n$ gpuproof serve %s --port %s &\n' "$job" "$port"
gpuproof serve "$job" --port "$port" >"$scratch/serve.log" 2>&1 &
server=$!
printf '$ python ../predict.py http://127.0.0.1:%s\n' "$port"
if ! PYTHONDONTWRITEBYTECODE=1 python ../predict.py "http://127.0.0.1:$port"; then
  cat "$scratch/serve.log"
  exit 1
fi
