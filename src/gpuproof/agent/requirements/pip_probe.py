"""Runs in the script's interpreter: which frameworks it has, what they stand on, and where a usable pip is.

Reads `[names, oldest pip]` as JSON from standard input and prints one JSON object. `gpuproof.agent.requirements.install` sends
this file's text to the interpreter, so it imports nothing but the standard library, and pip where there is one.
"""

from __future__ import annotations

import glob
import json
import os
import re
import sys
import sysconfig
from importlib import metadata


def main() -> None:
    names, oldest = json.load(sys.stdin)
    version, wheel = _usable_pip(oldest)
    if wheel is not None:
        sys.path.insert(0, wheel)
    found = {name: have for name in names for have in [_installed(name)] if have is not None}
    print(json.dumps({"pip": version, "wheel": wheel, "found": found, "bounds": _bounds(list(found))}))


def _usable_pip(oldest: list[int]) -> tuple[str | None, str | None]:
    """The version of the installed pip; of the one that ensurepip carries, and its wheel, where that is too old."""
    version = _installed("pip")
    if version is not None and _numbers(version) >= oldest:
        return version, None
    folders = [sysconfig.get_config_var("WHEEL_PKG_DIR"), "/usr/share/python-wheels"]
    try:
        import ensurepip

        folders.append(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"))  # noqa: PTH118, PTH120
    except ImportError:
        pass  # Debian packs it apart
    wheels = [wheel for folder in folders if folder for wheel in glob.glob(f"{folder}/pip-*.whl")]  # noqa: PTH207
    for wheel in sorted(wheels, key=_wheel_version, reverse=True):
        if _wheel_version(wheel) >= oldest:
            return ".".join(str(number) for number in _wheel_version(wheel)), wheel
    return version, None


def _bounds(names: list[str]) -> list[list[str]]:
    """What the named distributions need and have, as `[name, specifier, who needs it]`."""
    try:
        from pip._vendor.packaging.requirements import (  # pyright: ignore[reportMissingImports]
            InvalidRequirement,
            Requirement,
        )
    except ImportError:
        return []
    found: list[list[str]] = []
    for name in names:
        for line in metadata.distribution(name).requires or ():
            try:
                needs = Requirement(line)
            except InvalidRequirement:
                continue
            if (
                needs.url
                or not needs.specifier
                or (needs.marker and not needs.marker.evaluate({"extra": ""}))
            ):
                continue
            have = _installed(needs.name)
            # What does not hold now need not hold later.
            if have is None or needs.specifier.contains(have, prereleases=True):
                found.append([needs.name, str(needs.specifier), name])
    return found


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _wheel_version(wheel: str) -> list[int]:
    return _numbers(os.path.basename(wheel))  # noqa: PTH119


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:2]]


if __name__ == "__main__":
    main()
