"""`python -m tarmac`: the same as `tarmac`."""

import sys

from tarmac.cli.main import main

sys.exit(main())
