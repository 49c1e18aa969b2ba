"""Finds a framework's build by a requirement: `torch==2.11.0+cu126`, `tf 2.21`, `tensorflow`."""

import re
from collections.abc import Sequence

from gpuproof.catalogue.model import Build
from gpuproof.util.versions import version_key

FRAMEWORKS = {
    "torch": "torch",
    "pytorch": "torch",
    "tensorflow": "tensorflow",
    "tf": "tensorflow",
    "jax": "jax",
}
"""Names of frameworks, and their name in the build table."""


def parse_requirement(text: str) -> tuple[str, str, str] | None:
    """Parses `torch==2.11.0+cu126`.

    Returns:
        Framework, version as `2.11` (empty for the newest) and variant (empty for the default); None for other text.
    """
    match = re.fullmatch(
        r"\s*([A-Za-z]+)(?:\[[\w,-]+\])?\s*(?:(?:==|=|\s|:)\s*(\d+\.\d+)[.\w]*?(?:\+(\w+))?)?\s*", text
    )
    if not match or match[1].lower() not in FRAMEWORKS:
        return None
    return FRAMEWORKS[match[1].lower()], match[2] or "", match[3] or ""


def find_build(builds: Sequence[Build], requirement: str, arch: str) -> Build | None:
    """Returns the build that the requirement names for one host architecture; None if there is no such row."""
    parsed = parse_requirement(requirement)
    if parsed is None:
        return None
    framework, version, variant = parsed
    of_framework = [build for build in builds if build.framework == framework and build.arch == arch]
    if not version and of_framework:
        version = max((build.version for build in of_framework), key=version_key)
    candidates = [build for build in of_framework if build.version == version]
    if not variant:
        return next((build for build in candidates if build.variant == "default"), None)
    if named := next((build for build in candidates if build.variant == variant), None):
        return named
    # `+cu130` also matches the default wheel if it is built with that CUDA.
    return next((build for build in candidates if f"cu{build.cuda.replace('.', '')}" == variant), None)
