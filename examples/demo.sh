#!/usr/bin/env bash
# Trains a small CNN through `tarmac run`, fetches the model and checks it on digits that it has not seen.
# `examples/demo.sh pytorch-digits` does the same with PyTorch.
set -euo pipefail
job="${1:-keras-digits}"
cd "$(dirname "${BASH_SOURCE[0]}")/$job"
pulled="$(mktemp -d)"
trap 'rm -rf "$pulled"' EXIT

printf '$ tarmac run\n'
tarmac run
printf '\n$ tarmac pull %s --to pulled\n' "$job"
tarmac pull "$job" --to "$pulled"
printf '\n$ python evaluate.py pulled/model.tar.gz\n'
PYTHONDONTWRITEBYTECODE=1 python evaluate.py "$pulled/model.tar.gz"
