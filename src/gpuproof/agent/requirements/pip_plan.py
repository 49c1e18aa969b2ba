"""Plans what pip would install for a `requirements.txt`, with the installed frameworks as constraints."""

from __future__ import annotations

import json
import pkgutil
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.agent.requirements.pip_process import Log, failure_message, run_pip
from gpuproof.util.installed_frameworks import FRAMEWORK_DISTRIBUTIONS
from gpuproof.util.versions import version_key

PROTECTED = tuple(name for family in FRAMEWORK_DISTRIBUTIONS.values() for name in family)
"""Distributions that are never replaced."""

# The first pip with `install --dry-run --report`: https://pip.pypa.io/en/stable/news/#v22-2
_OLDEST_PIP = (22, 2)

# The working directory holds the user's modules: pip must not import one of them instead of a standard module.
_PIP = "import runpy, sys; sys.path = [at for at in sys.path if at]; runpy.run_module('pip', run_name='__main__', alter_sys=True)"


class RequirementsConflict(Exception):
    """The file requires replacing an installed framework, or a version of a dependency that the framework excludes."""


class RequirementsFailed(Exception):
    """pip could not install the requirements; the message ends with pip's last output."""


@dataclass(frozen=True)
class Pin:
    """One package to install.

    Args:
        url: its source, if the file names it by URL; the part after the `@` in PEP 508.
        hash: `sha256:...` of the archive; empty if unknown to pip.
    """

    name: str
    version: str
    url: str = ""
    hash: str = ""


@dataclass(frozen=True)
class Interpreter:
    """The script's interpreter."""

    pip: Sequence[str]
    frameworks: Mapping[str, str]
    bounds: Sequence[tuple[str, str, str]]


def inspect_interpreter(python: str, protected: Sequence[str]) -> Interpreter:
    probe = pkgutil.get_data("gpuproof.agent.requirements", "pip_probe.py") or b""
    asked = subprocess.run(
        [python, "-c", probe.decode()],
        input=json.dumps([list(protected), list(_OLDEST_PIP)]),
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    try:
        answer = json.loads(asked.stdout)
    except ValueError:
        last = asked.stderr.strip().splitlines()[-1:] or [f"exit code {asked.returncode}"]
        raise RequirementsFailed(f"the packages of {python} could not be read: {last[0]}") from None
    if answer["wheel"] is not None:
        command = [python, answer["wheel"] + "/pip"]
    elif answer["pip"] is not None and version_key(answer["pip"])[:2] >= _OLDEST_PIP:
        command = [python, "-c", _PIP]
    else:
        have = f"has pip {answer['pip']}" if answer["pip"] else "has no pip"
        oldest = ".".join(map(str, _OLDEST_PIP))
        raise RequirementsFailed(
            f"{python} {have}, and installing requirements.txt requires pip {oldest} or later. Type: {python} -m ensurepip --upgrade"
            f"   (or: uv pip install --python {python} pip)"
        )
    return Interpreter(
        command, answer["found"], [(name, needs, who) for name, needs, who in answer["bounds"]]
    )


def plan_installation(interpreter: Interpreter, requirements: Path, log: Log) -> list[Pin]:
    with tempfile.TemporaryDirectory(prefix="gpuproof-pip-") as scratch:
        constraints, report = Path(scratch, "constraints.txt"), Path(scratch, "report.json")
        constraints.write_text("\n".join(_constraints(interpreter)) + "\n", encoding="utf-8")
        output = run_pip(
            [
                *(*interpreter.pip, "install", "--dry-run", "--report", str(report)),
                *("-r", str(requirements), "-c", str(constraints)),
            ],
            requirements,
            log,
            _stand_ins(interpreter, Path(scratch, "stand-ins")),
        )
        if output.failed:
            conflict = explain_conflict(output.lines, interpreter.frameworks, interpreter.bounds)
            raise RequirementsConflict(conflict) if conflict else RequirementsFailed(failure_message(output))
        pins = [_pin(item) for item in json.loads(report.read_text(encoding="utf-8"))["install"]]
    for pin in pins:
        if _normal(pin.name) in interpreter.frameworks:
            have = interpreter.frameworks[_normal(pin.name)]
            raise RequirementsConflict(_conflict(pin.name, have, f"it requires {pin.name} {pin.version}"))
    return pins


def explain_conflict(
    lines: Sequence[str], frameworks: Mapping[str, str], bounds: Sequence[tuple[str, str, str]]
) -> str | None:
    """Translate pip's report of a conflict into a sentence about the framework that causes it.

    Returns:
        The sentence; None if no framework is involved.
    """
    start = next((at for at, line in enumerate(lines) if "conflict is caused by" in line), None)
    if start is None:
        return None
    causes: list[str] = []
    for line in lines[start + 1 :]:
        if not line.strip():
            break
        causes.append(line.strip())
    held = [match[1] for match in map(re.compile(r".*\(constraint\) ([\w.-]+)").match, causes) if match]
    asked = " and ".join(
        cause.replace("The user requested", "it requires") for cause in causes if "(constraint)" not in cause
    )
    for name in map(_normal, held):
        if name in frameworks:
            return _conflict(name, frameworks[name], asked)
        for twin in _twins(name):
            if twin in frameworks:
                return _conflict(twin, f"{frameworks[twin]} (which counts as {name})", asked)
        for needed, specifier, who in bounds:
            if _normal(needed) == name and who in frameworks:
                return _conflict(who, f"{frameworks[who]} (which needs {needed}{specifier})", asked)
    return None


def _constraints(interpreter: Interpreter) -> Iterator[str]:
    """Constraints that protect the frameworks: their versions, those of their twins, and of their dependencies."""
    for name, version in interpreter.frameworks.items():
        yield f"{name}=={version}"
        for twin in _twins(name):
            if twin not in interpreter.frameworks:
                yield f"{twin}=={version}"
    for name, needs, _ in interpreter.bounds:
        if _normal(name) not in interpreter.frameworks:
            yield f"{name}{needs}"


def _twins(name: str) -> list[str]:
    """Distributions that install the same module."""
    return [
        twin
        for family in FRAMEWORK_DISTRIBUTIONS.values()
        if name in family
        for twin in family
        if twin != name
    ]


def _stand_ins(interpreter: Interpreter, folder: Path) -> Path:
    """A folder that makes pip believe that an installed tensorflow-cpu is also a tensorflow of the same version."""
    for name, version in interpreter.frameworks.items():
        for twin in _twins(name):
            if twin not in interpreter.frameworks:
                metadata = folder / f"{twin.replace('-', '_')}-{version}.dist-info" / "METADATA"
                metadata.parent.mkdir(parents=True)
                metadata.write_text(
                    f"Metadata-Version: 2.1\nName: {twin}\nVersion: {version}\n", encoding="utf-8"
                )
    return folder


def _conflict(name: str, version: str, asked: str) -> str:
    return (
        f"requirements.txt conflicts with the installed {name} {version}: {asked}. "
        f"A run never replaces the framework of its interpreter: relax the line in requirements.txt, or choose an "
        f"interpreter with that version (--python)."
    )


def _pin(item: Mapping[str, Any]) -> Pin:
    """One entry of pip's report: https://pip.pypa.io/en/stable/reference/installation-report/"""
    info, about = item["download_info"], item["metadata"]
    archive = info.get("archive_info", {})
    hashes = archive.get("hashes") or dict([archive["hash"].split("=", 1)] if archive.get("hash") else [])
    digest = next((f"{kind}:{value}" for kind, value in hashes.items()), "")
    if not item.get("is_direct"):
        return Pin(about["name"], about["version"], hash=digest)
    url, fragment = info["url"], f"#subdirectory={info['subdirectory']}" if "subdirectory" in info else ""
    if "vcs_info" in info:
        url = f"{info['vcs_info']['vcs']}+{url}@{info['vcs_info']['commit_id']}"
    return Pin(about["name"], about["version"], url=url + fragment, hash=digest)


def _normal(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
