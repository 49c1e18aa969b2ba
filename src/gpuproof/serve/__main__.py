"""`python -m gpuproof.serve`: the server, and the predictors that it starts."""

import sys

from gpuproof.serve.main import main

if __name__ == "__main__":
    sys.exit(main())
