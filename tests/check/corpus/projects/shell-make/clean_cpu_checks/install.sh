#!/bin/bash
set -euo pipefail
# Continuous integration has no GPU, so its torch is the small CPU build.
if [ "${CI:-}" = "true" ]; then
  pip install "torch>=2.5,<2.7" --index-url https://download.pytorch.org/whl/cpu
else
  pip install "torch>=2.5,<2.7"
fi
pip install 'numpy>=1.26' pytest
