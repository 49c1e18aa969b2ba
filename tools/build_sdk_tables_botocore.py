"""Prints, as JSON, the required members of every SageMaker operation of this interpreter's botocore.

Runs inside the environment of one botocore (`build_sdk_tables.py` starts it there); standard library only.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path


def main() -> None:
    spec = importlib.util.find_spec("botocore")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("This interpreter has no botocore.")
    folder = Path(spec.submodule_search_locations[0], "data", "sagemaker")
    model = json.loads(gzip.decompress(max(folder.glob("*/service-2.json.gz")).read_bytes()))
    required = {
        name: model["shapes"][operation["input"]["shape"]].get("required", [])
        for name, operation in model["operations"].items()
        if "input" in operation
    }
    json.dump({"version": importlib.metadata.version("botocore"), "required": required}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
