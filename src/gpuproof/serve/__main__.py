"""Entry point of `python -m gpuproof.serve`, for the server and the processes that it starts."""

import sys

from gpuproof.serve.main import main

if __name__ == "__main__":
    sys.exit(main())
