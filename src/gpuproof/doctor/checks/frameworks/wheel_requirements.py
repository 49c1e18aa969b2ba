"""Parses the NVIDIA packages that a framework's wheel requires from its metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, Specifier
from packaging.version import InvalidVersion

from gpuproof.util.versions import version_key

_LINE = re.compile(
    r"(?P<name>[A-Za-z][\w.-]*)\s*(?:\[[^]]*\])?\s*\(?(?P<pins>[^;)]*)\)?\s*(?:;(?P<marker>.*))?"
)


@dataclass(frozen=True)
class Requirement:
    """One requirement in the metadata.

    Args:
        name: normalized, such as `nvidia-cudnn-cu12`.
        pins: such as ((`>=`, `9.3.0.75`), (`<`, `10.0`)).
        extra: whether only an extra such as `and-cuda` requires it.
    """

    name: str
    pins: tuple[tuple[str, str], ...]
    extra: bool = False

    def __str__(self) -> str:
        return self.name + ",".join(map("".join, self.pins))

    @property
    def minimum(self) -> str | None:
        """The oldest version that it accepts; `None` without a lower bound."""
        versions = [version for operator, version in self.pins if operator in ("==", ">=", "~=")]
        return max(versions, key=version_key, default=None)

    @property
    def exact(self) -> bool:
        """Whether it accepts exactly one version."""
        return any(operator == "==" for operator, _ in self.pins)

    def accepts(self, version: str) -> bool:
        """Whether it accepts a version."""
        return all(_satisfies(version, operator, pin) for operator, pin in self.pins)


def parse_requirements(lines: Iterable[str], arch: str) -> list[Requirement]:
    """Parse the requirements that apply on Linux and this architecture; lines that cannot be parsed are skipped.

    Args:
        arch: as in `platform.machine()`: `x86_64`, `aarch64`.
    """
    found: list[Requirement] = []
    for line in lines:
        match = _LINE.fullmatch(line.strip())
        # `name @ URL` has no version.
        if match is None or "@" in match["pins"] or not _applies(match["marker"] or "", arch):
            continue
        pins = re.findall(r"(==|>=|<=|~=|!=|<|>)\s*([\w.*+]+)", match["pins"])
        name = re.sub(r"[-_.]+", "-", match["name"]).lower()
        found.append(Requirement(name, tuple(pins), "extra" in (match["marker"] or "")))
    return found


def _applies(marker: str, arch: str) -> bool:
    machines = re.findall(r"platform_machine\s*==\s*['\"](\w+)['\"]", marker)
    systems = re.findall(r"(?:platform_system|sys_platform)\s*==\s*['\"](\w+)['\"]", marker)
    return (not machines or arch in machines) and (not systems or bool({"Linux", "linux"} & set(systems)))


def _satisfies(version: str, operator: str, pin: str) -> bool:
    try:
        return Specifier(f"{operator}{pin}").contains(version, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        # Unreadable versions are not reported as conflicts.
        return True
