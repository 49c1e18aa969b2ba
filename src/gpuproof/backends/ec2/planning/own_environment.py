"""Plans an environment that uv makes on the instance, for a framework's version that no AMI has."""

from __future__ import annotations

import re

from gpuproof.backends.ec2.target import OwnEnvironment
from gpuproof.backends.remote.planning.framework import Framework
from gpuproof.backends.remote.planning.instance_search import Candidate
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.builds import FRAMEWORKS
from gpuproof.catalogue.images import HUGGINGFACE
from gpuproof.util.versions import version_key

_PYTHONS = ("3.12", "3.11", "3.10", "3.9")
"""Versions that the agent supports, in the order of preference; newer ones lack wheels of many packages."""

_FIRST_WITH_CUDA = (2, 14)
"""The first TensorFlow with the extra `and-cuda`: https://www.tensorflow.org/install/pip"""

_FIRST_WITH_NUMPY_2 = (2, 3)
"""The first torch that was built with NumPy 2: https://github.com/pytorch/pytorch/releases/tag/v2.3.0"""


def own_environment(
    framework: Framework, candidate: Candidate, catalogue: Catalogue
) -> OwnEnvironment | None:
    """The environment for a framework's version; None if the catalogue does not know a build of it for the GPU, or no version is named.

    The wheels of PyPI are built with a CUDA that the drivers of all current AMIs support; the host checks that, too.
    """
    name, version = FRAMEWORKS.get(framework.name), framework.version or ""
    # A local version, such as 2.9.0+cu126, is not on PyPI.
    if framework.name == HUGGINGFACE or not re.fullmatch(r"\d+\.\d+(\.\d+)?", version):
        return None
    instance = candidate.instance
    build = catalogue.build(f"{name}=={version}", instance.arch if instance is not None else "x86_64")
    if build is None or build.device == "cpu":
        return None
    if (
        instance is not None
        and instance.gpu_model
        and catalogue.runs_on(build, instance.gpu_model).kind == "no"
    ):
        return None
    exact = version if version.count(".") == 2 else f"{version}.*"
    python = next((python for python in _PYTHONS if _is_supported(python, build.python)), None)
    if python is None:
        return None
    if name == "torch":
        numpy = "numpy" if version_key(version) >= _FIRST_WITH_NUMPY_2 else "numpy<2"
        return OwnEnvironment(python, (f"torch=={exact}", numpy))
    if name == "tensorflow" and version_key(version) >= _FIRST_WITH_CUDA:
        return OwnEnvironment(python, (f"tensorflow[and-cuda]=={exact}",))
    return None


def _is_supported(python: str, supported: str) -> bool:
    """Whether a version of Python is in `3.9-3.12` or `>=3.11`."""
    low, _, high = supported.removeprefix(">=").partition("-")
    return version_key(low) <= version_key(python) <= (version_key(high) or (99,))
