"""Frameworks that an interpreter has, read from its installed packages without importing any."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

FRAMEWORK_DISTRIBUTIONS: Mapping[str, Sequence[str]] = {
    "tensorflow": (
        *("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-intel", "tensorflow-macos"),
        *("tensorflow-aarch64", "tensorflow-cpu-aws", "tensorflow-rocm", "tf-nightly", "tf-nightly-cpu"),
    ),
    "keras": ("keras", "keras-nightly"),
    "tf_keras": ("tf-keras", "tf-keras-nightly"),
    "torch": ("torch",),
    "torchvision": ("torchvision",),
    "torchaudio": ("torchaudio",),
    "jax": ("jax",),
    "jaxlib": ("jaxlib",),
}
"""Distributions of frameworks, by the module that they install; two of one family overwrite each other."""

_REPORTED = ("tensorflow", "keras", "torch", "jax")
_TIMEOUT_SECONDS = 10.0
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
    """Versions of TensorFlow, Keras, PyTorch and JAX that an interpreter would import, by module name.

    Args:
        python: absolute path of the interpreter. Another interpreter than this process's is started to read them.
    """
    names = [name for module in _REPORTED for name in FRAMEWORK_DISTRIBUTIONS[module]]
    versions = _own_versions(names) if python == sys.executable else _versions_of(python, names)
    found: dict[str, str] = {}
    for module in _REPORTED:
        version = first_version(module, versions)
        if version is not None:
            found[module] = version
    return found


def first_version(module: str, versions: Mapping[str, str]) -> str | None:
    """The version of whichever distribution provides a framework's module.

    Args:
        module: such as `tensorflow`.
    """
    return next((versions[name] for name in FRAMEWORK_DISTRIBUTIONS[module] if name in versions), None)


def _own_versions(names: Iterable[str]) -> dict[str, str]:
    """Versions of this interpreter's distributions, from the names of their metadata folders.

    A folder is called `torch-2.8.0+cu126.dist-info`, with underscores in place of hyphens (Python packaging
    specification "Recording installed projects"). importlib.metadata reads the same, but its import delays each start.
    """
    wanted = {name.replace("-", "_"): name for name in names}
    versions: dict[str, str] = {}
    for folder in sys.path:
        try:
            entries = os.listdir(folder or ".")  # noqa: PTH208 - names, not paths: hundreds of them
        except OSError:
            continue
        for entry in entries:
            stem, _, suffix = entry.rpartition(".")
            if suffix not in ("dist-info", "egg-info"):
                continue
            name, _, version = stem.partition("-")
            known = wanted.get(name.lower().replace("-", "_"))
            if known is not None and version:
                versions.setdefault(known, version.partition("-")[0])
    return versions


def _versions_of(python: str, names: list[str]) -> dict[str, str]:
    import subprocess  # needed only for an interpreter of the script's own

    command = [python, "-c", _SCRIPT, *names]
    try:
        finished = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
        return json.loads(finished.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        # The versions are only informative; if the interpreter is broken, the script's own start reports it.
        return {}
