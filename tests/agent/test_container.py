from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Box

REPORT = """
import json, os, sys
print(json.dumps({"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ),
    "channels": sorted(os.listdir("/opt/ml/input/data")) if os.path.isdir("/opt/ml/input/data") else []}))
"""


def test_the_script_runs(box: Box) -> None:
    box.sagemaker(channels=["training"])
    box.send({"train.py": REPORT}, hyperparameters={"epochs": 5, "rate": 0.1}, arguments=["--more"])
    done = box.carry_out()
    assert done.code == 0, done.stderr
    seen = json.loads(done.lines[0])
    assert seen["argv"] == ["--epochs", "5", "--rate", "0.1", "--more"]
    assert seen["env"]["SM_CHANNELS"] == '["training"]'
