"""Raises the errors that a TOML file of `tests/explain/corpus` describes, and prints each traceback as a JSON line."""

import json
import sys
import tomllib
import traceback
from pathlib import Path

cases = tomllib.loads(Path(sys.argv[1]).read_text())
shared: dict[str, object] = {}
exec(cases.pop("setup"), shared)
for name, case in cases.items():
    try:
        exec(case["code"], dict(shared))
        text = ""
    except BaseException:
        text = traceback.format_exc()
    print(json.dumps({"case": name, "text": text}), flush=True)
