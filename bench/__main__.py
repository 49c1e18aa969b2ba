"""`python -m bench [NAME …]`: run the benchmarks of this folder, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Run those that are named, or all."""
    known = sorted(path.stem for path in HERE.glob("[a-z]*.py"))
    names = sys.argv[1:] or known
    if unknown := set(names) - set(known):
        print(
            f"bench: there is no {', '.join(sorted(unknown))}; there are {', '.join(known)}", file=sys.stderr
        )
        return 2
    codes: list[int] = []
    for name in names:
        print(f"== {name}", flush=True)
        codes.append(subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=False).returncode)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
