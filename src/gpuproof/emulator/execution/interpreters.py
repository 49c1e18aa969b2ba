"""Which Python a container has, and what else of this machine it may see."""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Mapping
from pathlib import Path

from gpuproof.emulator.options import Options

_INHERITED = (
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "NO_PROXY",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
    "TMPDIR",
    "TZ",
)
_INHERITED_KINDS = ("OMP_", "PIP_", "UV_")
# https://github.com/aws/deep-learning-containers sets them in its Dockerfiles.
_MODULES = {
    "tensorflow": "sagemaker_tensorflow_container.training:main",
    "pytorch": "sagemaker_pytorch_container.training:main",
}
_NAMES = ("python3", "python")


def base_environment(options: Options, image: str, home: Path, outside: Mapping[str, str]) -> dict[str, str]:
    """What an image brings of its own: `PATH` with its interpreter, a home, and the ways out to package registries.

    Args:
        image: the container image; its name tells the framework.
        home: a folder of the instance's own.
        outside: the emulator's own environment.
    """
    python = interpreter_for(options, image)
    shims = _shims(options.state / "shims", python)
    kept = {
        name: value
        for name, value in outside.items()
        if name.upper() in _INHERITED or name.startswith(_INHERITED_KINDS)
    }
    path = os.pathsep.join([str(shims), str(Path(python).parent), outside.get("PATH", os.defpath)])
    return {**kept, **_of_image(image), "PATH": path, "HOME": str(home), "PYTHONUNBUFFERED": "1"}


def interpreter_for(options: Options, image: str) -> str:
    """The interpreter that stands for an image's own, chosen by the framework in the image's name."""
    repository = repository_of(image)
    for framework, python in options.pythons.items():
        if framework in repository:
            return python
    return options.python


def repository_of(image: str) -> str:
    """An image's repository and tag, without registry and digest."""
    return image.partition("/")[2].partition("@")[0] or image


def _of_image(image: str) -> dict[str, str]:
    """What AWS's own images say about themselves."""
    repository = repository_of(image)
    module = next((module for framework, module in _MODULES.items() if framework in repository), None)
    return {"SAGEMAKER_TRAINING_MODULE": module} if module else {}


def _shims(folder: Path, python: str) -> Path:
    """A folder with `python3` and `python` for an interpreter.

    A link would not do: a virtual environment is found by where the link itself lies.
    """
    place = folder / python.strip("/").replace("/", "-")
    place.mkdir(parents=True, exist_ok=True)
    for name in _NAMES:
        script = place / name
        if not script.exists():
            beside = place / f".{name}.{threading.get_ident()}"
            beside.write_text(f'#!/bin/sh\nexec {shlex.quote(python)} "$@"\n')
            beside.chmod(0o755)
            beside.replace(script)
    return place
