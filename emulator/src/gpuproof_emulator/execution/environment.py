"""Environment variables of a container: interpreter, region, and credentials of a role."""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Mapping
from pathlib import Path

from gpuproof_emulator.clients import Clients
from gpuproof_emulator.execution.image_interpreter import repository_of, select_interpreter
from gpuproof_emulator.options import Options

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
# Set in the Dockerfiles of https://github.com/aws/deep-learning-containers.
_MODULES = {
    "tensorflow": "sagemaker_tensorflow_container.training:main",
    "pytorch": "sagemaker_pytorch_container.training:main",
}
_NAMES = ("python3", "python")


def base_environment(options: Options, image: str, home: Path, outside: Mapping[str, str]) -> dict[str, str]:
    """The variables that an image itself sets: `PATH` with its interpreter, a home, and settings for package registries.

    Args:
        image: the container image, whose name contains the framework's.
        home: the container's home folder.
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
    return {**kept, **_image_environment(image), "PATH": path, "HOME": str(home), "PYTHONUNBUFFERED": "1"}


def interpreter_for(options: Options, image: str) -> str:
    """The interpreter that replaces an image's own, chosen by the framework in the image's name."""
    return select_interpreter(options.pythons, options.python, image)


def role_environment(clients: Clients, region: str, role: str, name: str) -> dict[str, str]:
    """Variables with which a container calls the emulator as a role.

    Args:
        role: the role's ARN.
        name: of the job or endpoint, for the role's session.
    """
    session = f"SageMaker-{name}"[:64]
    keys = clients.get("sts", region).assume_role(RoleArn=role, RoleSessionName=session)["Credentials"]
    return {
        "AWS_ENDPOINT_URL": clients.url,
        "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
        "AWS_SESSION_TOKEN": keys["SessionToken"],
    }


def region_environment(region: str) -> dict[str, str]:
    """The region, in the variables that AWS SDKs read."""
    return {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}


def _image_environment(image: str) -> dict[str, str]:
    """Variables that AWS's own images set."""
    repository = repository_of(image)
    module = next((module for framework, module in _MODULES.items() if framework in repository), None)
    return {"SAGEMAKER_TRAINING_MODULE": module} if module else {}


def _shims(folder: Path, python: str) -> Path:
    """A folder with `python3` and `python` that run an interpreter.

    Symbolic links would not work: Python finds a virtual environment by the link's own location.
    """
    shims = folder / python.strip("/").replace("/", "-")
    shims.mkdir(parents=True, exist_ok=True)
    for name in _NAMES:
        script = shims / name
        if not script.exists():
            temporary = shims / f".{name}.{threading.get_ident()}"
            temporary.write_text(f'#!/bin/sh\nexec {shlex.quote(python)} "$@"\n')
            temporary.chmod(0o755)
            temporary.replace(script)
    return shims
