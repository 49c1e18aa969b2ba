"""Which frameworks an interpreter has, read from its installed packages without importing one."""

from __future__ import annotations

import json
import sys

_DISTRIBUTIONS = {
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos"),
    "keras": ("keras",),
    "torch": ("torch",),
    "jax": ("jax",),
}
_PATIENCE_SECONDS = 10.0
_SCRIPT = """
import json, sys
from importlib import metadata
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def installed_frameworks(python: str) -> dict[str, str]:
    """Versions of TensorFlow, Keras, PyTorch and JAX that an interpreter would import, by import name.

    Args:
        python: absolute path of the interpreter. The agent's own answers at once, another is started to ask it.
    """
    names = [name for distributions in _DISTRIBUTIONS.values() for name in distributions]
    versions = _own_versions(names) if python == sys.executable else _asked_versions(python, names)
    found: dict[str, str] = {}
    for framework, distributions in _DISTRIBUTIONS.items():
        version = next((versions[name] for name in distributions if name in versions), None)
        if version is not None:
            found[framework] = version
    return found


def _own_versions(names: list[str]) -> dict[str, str]:
    from importlib import metadata  # costs the agent's start 10 ms

    installed = {name: list(metadata.Distribution.discover(name=name)) for name in names}
    return {name: distributions[0].version for name, distributions in installed.items() if distributions}


def _asked_versions(python: str, names: list[str]) -> dict[str, str]:
    import subprocess  # needed only where the script has an interpreter of its own

    command = [python, "-c", _SCRIPT, *names]
    try:
        asked = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False
        )
        return json.loads(asked.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        # It is told for convenience alone; the script's own start will say what is wrong.
        return {}
