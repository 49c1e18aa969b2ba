"""Settings from config.yml: ${NAME:-default} is replaced, and "auto" and 0 are filled in for this host."""

import os
import re
from pathlib import Path

import torch
import yaml

_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


def load(path="config.yml"):
    text = Path(path).read_text()
    text = _VARIABLE.sub(lambda match: os.environ.get(match[1], match[2]), text)
    settings = yaml.safe_load(text)
    if settings["device"] == "auto":
        settings["device"] = "cuda" if torch.cuda.is_available() else "cpu"
    settings["loader"]["num_workers"] = settings["loader"]["num_workers"] or max(1, (os.cpu_count() or 2) - 1)
    return settings
