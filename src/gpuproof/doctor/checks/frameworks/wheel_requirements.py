"""What a framework's wheel asks for of NVIDIA's packages, as its metadata has it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpuproof.catalogue.builds import version_key

_LINE = re.compile(
    r"(?P<name>[A-Za-z][\w.-]*)\s*(?:\[[^]]*\])?\s*\(?(?P<pins>[^;)]*)\)?\s*(?:;(?P<marker>.*))?"
)


@dataclass(frozen=True)
class Requirement:
    """One line of metadata.

    Args:
        name: normalised: `nvidia-cudnn-cu12`.
        pins: such as ((`>=`, `9.3.0.75`), (`<`, `10.0`)).
        extra: whether only an extra such as `and-cuda` asks for it.
    """

    name: str
    pins: tuple[tuple[str, str], ...]
    extra: bool = False

    def __str__(self) -> str:
        return self.name + ",".join(map("".join, self.pins))

    @property
    def least(self) -> str | None:
        """The oldest version that it takes; `None` where it names none."""
        versions = [version for operator, version in self.pins if operator in ("==", ">=", "~=")]
        return max(versions, key=version_key, default=None)

    @property
    def exact(self) -> bool:
        """Whether it takes one version alone."""
        return any(operator == "==" for operator, _ in self.pins)

    def takes(self, version: str) -> bool:
        """Whether a version will do."""
        return all(_holds(version, operator, pin) for operator, pin in self.pins)


def parse_requirements(lines: Iterable[str], arch: str) -> list[Requirement]:
    """The lines that hold on Linux on that architecture; what cannot be read is left out.

    Args:
        arch: as `platform.machine()` says: `x86_64`, `aarch64`.
    """
    found: list[Requirement] = []
    for line in lines:
        match = _LINE.fullmatch(line.strip())
        # `name @ URL` names no version.
        if match is None or "@" in match["pins"] or not _holds_here(match["marker"] or "", arch):
            continue
        pins = re.findall(r"(==|>=|<=|~=|!=|<|>)\s*([\w.*+]+)", match["pins"])
        name = re.sub(r"[-_.]+", "-", match["name"]).lower()
        found.append(Requirement(name, tuple(pins), "extra" in (match["marker"] or "")))
    return found


def _holds_here(marker: str, arch: str) -> bool:
    machines = re.findall(r"platform_machine\s*==\s*['\"](\w+)['\"]", marker)
    systems = re.findall(r"(?:platform_system|sys_platform)\s*==\s*['\"](\w+)['\"]", marker)
    return (not machines or arch in machines) and (not systems or bool({"Linux", "linux"} & set(systems)))


def _holds(version: str, operator: str, pin: str) -> bool:
    ours, theirs = version_key(version), version_key(pin)
    if pin.endswith(".*"):
        return (ours[: len(theirs)] == theirs) == (operator == "==")
    length = max(len(ours), len(theirs))
    ours, theirs = (key + (0,) * (length - len(key)) for key in (ours, theirs))
    return {
        "==": ours == theirs,
        "!=": ours != theirs,
        ">=": ours >= theirs,
        "<=": ours <= theirs,
        "<": ours < theirs,
        ">": ours > theirs,
        "~=": ours >= theirs,
    }[operator]
