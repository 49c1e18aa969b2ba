"""Counts the lines of its input."""

import sys
from pathlib import Path

lines = sum(len(path.read_text().splitlines()) for path in Path("/opt/ml/processing/input").glob("*.csv"))
Path("/opt/ml/processing/output/count.txt").write_text(f"{sys.argv[1:]} {lines}")
print("counted", lines, flush=True)
