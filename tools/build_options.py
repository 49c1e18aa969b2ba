"""Writes `src/gpuproof/cli/options.json`: the flags that follow from the models, for a command line that starts without pydantic.

python tools/build_options.py          # write it
python tools/build_options.py --check  # exit 1 if it is not current
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from build_cli_docs import write_or_check

from gpuproof.jobs.options import COMMANDS, command_options

FILE = Path(__file__).resolve().parent.parent / "src" / "gpuproof" / "cli" / "options.json"


def main() -> int:
    """Write, or with --check compare."""
    return write_or_check(FILE, text(), __doc__)


def text() -> str:
    """The whole file: a list of flags for each command, one a line."""
    commands: list[str] = []
    for command in COMMANDS:
        flags = [
            option.to_json() for option in command_options(command).values() if option.flag.startswith("--")
        ]
        lines = ",\n".join(f"    {json.dumps(flag, ensure_ascii=False)}" for flag in flags)
        commands.append(f'  "{command}": [\n{lines}\n  ]')
    return "{\n" + ",\n".join(commands) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main())
