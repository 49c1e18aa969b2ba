"""Makes `bench` importable, which is no part of the package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
