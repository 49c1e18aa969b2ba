"""`python -m tarmac.serve`: the server, and what it starts."""

import sys

from tarmac.serve.main import main

sys.exit(main())
