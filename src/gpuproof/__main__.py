"""`python -m gpuproof`: the same as `gpuproof`."""

import sys

from gpuproof.cli.main import main

sys.exit(main())
