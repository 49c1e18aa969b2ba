"""Installs a script's `requirements.txt` for one run, without changing the interpreter's own packages.

pip decides what is missing, with the installed frameworks as constraints. The missing packages go into a folder of the
run, which comes first on `PYTHONPATH`, so neither the user's environment nor its TensorFlow or PyTorch is replaced. If
the file requires another version of a framework, the run fails with an explanation.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuproof.agent.requirements.pip_plan import (
    PROTECTED,
    Pin,
    RequirementsFailed,
    inspect_interpreter,
    plan_installation,
)
from gpuproof.agent.requirements.pip_process import Log, failure_message, run_pip

_OPTION = re.compile(
    r"\s*(-i|--index-url|--extra-index-url|--no-index|-f|--find-links|--trusted-host|--pre|--prefer-binary"
    r"|--no-binary|--only-binary)\b"
)
_NESTED = re.compile(r"\s*(?:-r|--requirement)[ =]?\s*(\S+)")


def install_requirements(
    python: str, requirements: Path, packages: Path, log: Log, *, protected: Sequence[str] = PROTECTED
) -> list[Pin]:
    """Install the packages that a requirements file requires and the interpreter lacks into a separate folder.

    Args:
        requirements: the file; relative paths in it start at its folder, as in SageMaker.
        packages: the folder for `PYTHONPATH` (its `bin` for `PATH`); not created if nothing is missing.
        protected: distributions that must not be replaced if the interpreter has them.

    Returns:
        The installed packages; empty if nothing was missing.

    Raises:
        RequirementsConflict: a protected distribution would have to be replaced.
        RequirementsFailed: pip failed, or the interpreter has no usable pip.
    """
    if not _has_lines(requirements):
        return []
    interpreter = inspect_interpreter(python, protected)
    pins = plan_installation(interpreter, requirements, log)
    if not pins:
        return []
    lines = [*_index_options(requirements), *_pin_lines(pins, "--hash=" in _text(requirements))]
    with tempfile.TemporaryDirectory(prefix="gpuproof-pip-") as scratch:
        exact = Path(scratch, "pins.txt")
        exact.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
        output = run_pip(
            [*interpreter.pip, "install", "--no-deps", "--target", str(packages), "-r", str(exact)],
            requirements,
            log,
        )
    if output.failed:
        raise RequirementsFailed(failure_message(output))
    return pins


def install_package(python: str, folder: Path, packages: Path, log: Log) -> list[Pin]:
    """Install the package in a folder with a `setup.py`, and what it requires; otherwise as `install_requirements`."""
    with tempfile.TemporaryDirectory(prefix="gpuproof-pip-") as scratch:
        requirements = Path(scratch, "setup.py.txt")
        requirements.write_text(f"{folder.absolute().as_uri()}\n", encoding="utf-8")
        return install_requirements(python, requirements, packages, log)


def plan(python: str, requirements: Path, log: Log, *, protected: Sequence[str] = PROTECTED) -> list[Pin]:
    """Return what `install_requirements` would install; raises the same errors."""
    return (
        plan_installation(inspect_interpreter(python, protected), requirements, log)
        if _has_lines(requirements)
        else []
    )


def _pin_lines(pins: Sequence[Pin], with_hashes: bool) -> Iterator[str]:
    for pin in pins:
        line = f"{pin.name} @ {pin.url}" if pin.url else f"{pin.name}=={pin.version}"
        yield f"{line} --hash={pin.hash}" if with_hashes and pin.hash else line


def _has_lines(requirements: Path) -> bool:
    return any(line.strip() and not line.strip().startswith("#") for line in _text(requirements).splitlines())


def _index_options(requirements: Path, above: tuple[Path, ...] = ()) -> Iterator[str]:
    """The package index options of the file and of the files it includes, with absolute paths."""
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
