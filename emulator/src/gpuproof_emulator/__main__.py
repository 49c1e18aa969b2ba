"""`python -m gpuproof_emulator`."""

import sys

from gpuproof_emulator.command_line import main

if __name__ == "__main__":
    sys.exit(main())
