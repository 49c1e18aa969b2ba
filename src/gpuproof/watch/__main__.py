"""`python -m gpuproof.watch`."""

import sys

from gpuproof.watch.main import main

sys.exit(main())
