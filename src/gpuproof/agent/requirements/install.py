"""Installing a script's `requirements.txt` for one run alone, without touching the interpreter's own packages.

pip decides what is missing, with the installed frameworks as constraints; what is missing goes into a folder of the
run, which comes first on `PYTHONPATH`. So neither the user's environment nor its TensorFlow or PyTorch is replaced:
where the file asks for that, the run stops and says so.
"""

from __future__ import annotations

import json
import os
import pkgutil
import re
import shlex
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gpuproof.util.process_tree import die_with_parent

FAMILIES: Mapping[str, Sequence[str]] = {
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
"""Distributions that are never replaced, by the module that they bring: two of one family overwrite one another."""

PROTECTED = tuple(name for family in FAMILIES.values() for name in family)

# The first pip with `install --dry-run --report`: https://pip.pypa.io/en/stable/news/#v22-2
_OLDEST_PIP = (22, 2)
_KEPT_LINES = 2_000
_LAST_LINES = 15
# Settings that mean another place, or packages anew: here they would defeat the purpose.
_UNWANTED = frozenset(
    f"PIP_{name}"
    for name in (
        *("TARGET", "PREFIX", "ROOT", "REPORT", "DRY_RUN", "NO_DEPS", "REQUIRE_VIRTUALENV"),
        *("UPGRADE", "FORCE_REINSTALL", "IGNORE_INSTALLED", "QUIET"),
    )
)
_OPTION = re.compile(
    r"\s*(-i|--index-url|--extra-index-url|--no-index|-f|--find-links|--trusted-host|--pre|--prefer-binary"
    r"|--no-binary|--only-binary)\b"
)
_NESTED = re.compile(r"\s*(?:-r|--requirement)[ =]?\s*(\S+)")

# The working directory holds the user's modules: pip must not take one of them for Python's own.
_PIP = "import runpy, sys; sys.path = [at for at in sys.path if at]; runpy.run_module('pip', run_name='__main__', alter_sys=True)"


class RequirementsConflict(Exception):
    """The file asks for what would replace an installed framework, or take away what it stands on."""


class RequirementsFailed(Exception):
    """pip could not install what the file asks for; the message ends with pip's last words."""


class Log(Protocol):
    """What takes pip's output."""

    def write(self, data: bytes, /) -> int: ...
    def flush(self) -> None: ...


@dataclass(frozen=True)
class Pin:
    """One package to install.

    Args:
        name: of the distribution.
        version: exactly this one.
        url: where it comes from, for what the file names by address; PEP 508's part after the `@`.
        hash: `sha256:...` of the archive where pip knows it, else empty.
    """

    name: str
    version: str
    url: str = ""
    hash: str = ""


def install_requirements(
    python: str, requirements: Path, packages: Path, log: Log, *, protected: Sequence[str] = PROTECTED
) -> list[Pin]:
    """Installs what a requirements file asks for and the interpreter lacks, into a folder of its own.

    Args:
        python: the script's interpreter.
        requirements: the file; relative paths in it count from its folder, as with SageMaker.
        packages: the folder, to be put on `PYTHONPATH` (and its `bin` on `PATH`); not made when nothing is missing.
        log: gets pip's output.
        protected: distributions that must stay as they are, where the interpreter has them.

    Returns:
        What was installed; empty where everything was there.

    Raises:
        RequirementsConflict: a protected distribution would have to be replaced.
        RequirementsFailed: pip failed, or there is none.
    """
    if not _asks_for_anything(requirements):
        return []
    interpreter = _look_at(python, protected)
    pins = _plan(interpreter, requirements, log)
    if not pins:
        return []
    lines = [*_index_options(requirements), *_pin_lines(pins, "--hash=" in _text(requirements))]
    with tempfile.TemporaryDirectory(prefix="gpuproof-pip-") as scratch:
        exact = Path(scratch, "pins.txt")
        exact.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
        output = _run_pip(
            [*interpreter.pip, "install", "--no-deps", "--target", str(packages), "-r", str(exact)],
            requirements,
            log,
        )
    if output.failed:
        raise RequirementsFailed(_failure(output))
    return pins


def plan(python: str, requirements: Path, log: Log, *, protected: Sequence[str] = PROTECTED) -> list[Pin]:
    """What `install_requirements` would install; it raises the same."""
    return _plan(_look_at(python, protected), requirements, log) if _asks_for_anything(requirements) else []


@dataclass(frozen=True)
class _Interpreter:
    """What the script's interpreter has.

    Args:
        pip: the command that runs a pip for it.
        frameworks: versions of the protected distributions that it has.
        bounds: what these need and have: name, specifier, who needs it.
    """

    pip: Sequence[str]
    frameworks: Mapping[str, str]
    bounds: Sequence[tuple[str, str, str]]


def _look_at(python: str, protected: Sequence[str]) -> _Interpreter:
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
        raise RequirementsFailed(f"{python} could not be asked for its packages: {last[0]}") from None
    if answer["wheel"] is not None:
        command = [python, answer["wheel"] + "/pip"]
    elif answer["pip"] is not None and _numbers(answer["pip"]) >= _OLDEST_PIP:
        command = [python, "-c", _PIP]
    else:
        have = f"has pip {answer['pip']}" if answer["pip"] else "has no pip"
        oldest = ".".join(map(str, _OLDEST_PIP))
        raise RequirementsFailed(
            f"{python} {have}, and requirements.txt needs pip {oldest} or later. Type: {python} -m ensurepip --upgrade"
            f"   (or: uv pip install --python {python} pip)"
        )
    return _Interpreter(
        command, answer["found"], [(name, needs, who) for name, needs, who in answer["bounds"]]
    )


def _plan(interpreter: _Interpreter, requirements: Path, log: Log) -> list[Pin]:
    with tempfile.TemporaryDirectory(prefix="gpuproof-pip-") as scratch:
        constraints, report = Path(scratch, "constraints.txt"), Path(scratch, "report.json")
        constraints.write_text("\n".join(_constraints(interpreter)) + "\n", encoding="utf-8")
        output = _run_pip(
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
            raise RequirementsConflict(conflict) if conflict else RequirementsFailed(_failure(output))
        pins = [_pin(item) for item in json.loads(report.read_text(encoding="utf-8"))["install"]]
    for pin in pins:
        if _normal(pin.name) in interpreter.frameworks:
            have = interpreter.frameworks[_normal(pin.name)]
            raise RequirementsConflict(_conflict(pin.name, have, f"it asks for {pin.name} {pin.version}"))
    return pins


def _constraints(interpreter: _Interpreter) -> Iterator[str]:
    """What holds pip off the frameworks: their versions, those of their twins, and what they stand on."""
    for name, version in interpreter.frameworks.items():
        yield f"{name}=={version}"
        for twin in _twins(name):
            if twin not in interpreter.frameworks:
                yield f"{twin}=={version}"
    for name, needs, _ in interpreter.bounds:
        if _normal(name) not in interpreter.frameworks:
            yield f"{name}{needs}"


def _twins(name: str) -> list[str]:
    """Distributions that bring the same module."""
    return [twin for family in FAMILIES.values() if name in family for twin in family if twin != name]


def _stand_ins(interpreter: _Interpreter, folder: Path) -> Path:
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


def explain_conflict(
    lines: Sequence[str], frameworks: Mapping[str, str], bounds: Sequence[tuple[str, str, str]]
) -> str | None:
    """Turns pip's account of a conflict into a sentence about the framework that is in the way.

    Args:
        lines: pip's output.
        frameworks: versions of the protected distributions that are installed.
        bounds: what these need: name, specifier, who needs it.

    Returns:
        The sentence, or None where no framework is in the way.
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
        cause.replace("The user requested", "it asks for") for cause in causes if "(constraint)" not in cause
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


def _conflict(name: str, version: str, asked: str) -> str:
    return (
        f"requirements.txt does not go with the installed {name} {version}: {asked}. "
        f"A run never replaces the framework of its interpreter: loosen the line in requirements.txt, or name an "
        f"interpreter that has what it asks for (--python)."
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


def _pin_lines(pins: Sequence[Pin], with_hashes: bool) -> Iterator[str]:
    for pin in pins:
        line = f"{pin.name} @ {pin.url}" if pin.url else f"{pin.name}=={pin.version}"
        yield f"{line} --hash={pin.hash}" if with_hashes and pin.hash else line


def _asks_for_anything(requirements: Path) -> bool:
    return any(line.strip() and not line.strip().startswith("#") for line in _text(requirements).splitlines())


def _index_options(requirements: Path, above: tuple[Path, ...] = ()) -> Iterator[str]:
    """The lines that say where packages come from, of the file and those that it names, with absolute paths."""
    if requirements in above or not requirements.is_file():
        return
    for line in _text(requirements).replace("\\\n", " ").splitlines():
        nested, option = _NESTED.match(line), _OPTION.match(line)
        if nested:
            yield from _index_options(requirements.parent / nested[1], (*above, requirements))
        elif option:
            words = shlex.split(re.sub(r"^(\s*--[\w-]+)=", r"\1 ", line), comments=True)
            yield shlex.join(
                _anchored(word, requirements.parent) if at else word for at, word in enumerate(words)
            )


def _anchored(word: str, folder: Path) -> str:
    local = folder / word
    return str(local.absolute()) if not word.startswith("-") and local.exists() else word


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8-sig", errors="surrogateescape")


@dataclass(frozen=True)
class _Output:
    failed: bool
    lines: Sequence[str]


def _run_pip(command: Sequence[str], requirements: Path, log: Log, stand_ins: Path | None = None) -> _Output:
    """Runs pip in the file's folder; its output goes to the log, but for what is there already."""
    environment = _environment(os.environ)
    if stand_ins is not None:
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(stand_ins), environment.get("PYTHONPATH")])
        )
    process = subprocess.Popen(
        [*command, "--progress-bar", "off"],
        cwd=requirements.parent,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # pip starts compilers and build tools; they end with it.
        start_new_session=True,
        # And it ends with us, whatever ends us. This process has one thread yet.
        preexec_fn=die_with_parent,  # noqa: PLW1509
    )
    lines: deque[str] = deque(maxlen=_KEPT_LINES)
    with process:
        try:
            for line in process.stdout or ():
                if not line.startswith(b"Requirement already satisfied"):
                    log.write(line)
                    log.flush()
                lines.append(line.decode(errors="replace").rstrip())
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return _Output(process.returncode != 0, list(lines))


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """The user's own settings for pip stay, but for those that mean another place."""
    kept = {name: value for name, value in given.items() if name not in _UNWANTED}
    return {
        **kept,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        # PEP 668 guards the system's packages, and nothing here is installed among them.
        "PIP_BREAK_SYSTEM_PACKAGES": "1",
        "PIP_USER": "0",
        "PYTHONUNBUFFERED": "1",
    }


def _failure(output: _Output) -> str:
    last = "\n".join([line for line in output.lines if line.strip()][-_LAST_LINES:])
    return f"pip could not install what requirements.txt asks for. Its last words:\n{last}"


def _normal(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
