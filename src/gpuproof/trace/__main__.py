"""`python -m gpuproof.trace --output FILE -- train.py --epochs 3`: trace a script in this process."""

from __future__ import annotations

import sys

from gpuproof.trace.main import main

sys.exit(main())
