"""Creates the project's virtual environment: `python3 tools/setup_venv.py .venv`.

Requires only Python 3.11 or later. The packages are installed by uv, which takes one minute instead of pip's five: by
the uv on PATH if it is recent, else by one that pip installs into the environment. Does nothing if the environment is
current. The syntax of this file is readable by older Pythons, so that they print which version is required.
"""

from __future__ import annotations

import configparser
import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST_PYTHON = (3, 11)
# uv 0.7 is the first whose `pip install` and `pip compile` both support dependency groups; 0.8 leaves a margin.
OLDEST_UV = (0, 8)
GROUPS = ("dev", "docs", "examples", "libraries")
SOURCES = ("pyproject.toml", "emulator/pyproject.toml", "constraints.txt", "tools/setup_venv.py")
# uv reads only its own settings; the user's settings for pip, such as mirrors, are passed on to uv.
PIP_TO_UV = {
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "cert": "SSL_CERT_FILE",
}
# uv gives up after 30 seconds without data and three attempts: too early for a busy network or proxy.
UV_PATIENCE = {"UV_HTTP_TIMEOUT": "300", "UV_HTTP_RETRIES": "10"}
PIP_FILES = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: python3 tools/setup_venv.py VENV")
    if sys.version_info < OLDEST_PYTHON:
        raise SystemExit(too_old())
    set_up(Path(sys.argv[1]).absolute())


def set_up(folder: Path) -> None:
    """Creates or updates the environment in `folder`; does nothing if it is current."""
    stamp = folder / ".gpuproof-setup"
    wanted = fingerprint()
    if stamp.is_file() and stamp.read_text() == wanted and works(folder):
        return
    environment = uv_environment(dict(os.environ))
    uv = recent_uv(shutil.which("uv"))
    make_environment(folder, with_pip=not uv)
    if not uv:
        uv = uv_of(folder, environment)
    print(
        f"gpuproof: installing the dependencies in pyproject.toml into {folder}", file=sys.stderr, flush=True
    )
    command = [uv, "pip", "install", "--python", str(python_of(folder)), "-c", "constraints.txt"]
    command += ["-e", ".", "-e", "./emulator"]
    for group in GROUPS:
        command += ["--group", group]
    run(command, environment)
    stamp.write_text(wanted)


def too_old() -> str:
    have = ".".join(str(part) for part in sys.version_info[:3])
    return (
        f"gpuproof: Python 3.11 or later is required; {sys.executable} is {have}.\n"
        "Use a newer one: make test PYTHON=python3.12   (Debian, Ubuntu: apt install python3.12 python3.12-venv)"
    )


def fingerprint() -> str:
    """Digest that changes when the environment must be created again."""
    digest = hashlib.sha256(f"{sys.version}\n{sys.base_prefix}\n{ROOT}\n".encode())
    for name in SOURCES:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest() + "\n"


def works(folder: Path) -> bool:
    """Whether the environment's interpreter still starts; a system upgrade may have removed it."""
    return is_this_python(folder) and (folder / "bin" / "gpuproof-emulator").exists()


def uv_environment(environment: dict[str, str]) -> dict[str, str]:
    """Returns the environment variables for uv, with pip's settings where uv has none."""
    settings = pip_settings(environment)
    for theirs, ours in PIP_TO_UV.items():
        values = settings.get(theirs, "").split()
        if theirs == "find-links":
            # A missing folder is a warning for pip but an error for uv.
            values = [",".join(value for value in values if "://" in value or Path(value).is_dir())]
        if any(values) and not environment.get(ours):
            environment[ours] = " ".join(values)
    if settings.get("extra-index-url"):
        # pip uses the best version of all indexes; by default uv stops at the first index that has the package.
        environment.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    for name, value in UV_PATIENCE.items():
        environment.setdefault(name, value)
    # The active environment of the caller's shell is not the one to install into.
    environment.pop("VIRTUAL_ENV", None)
    return environment


def pip_settings(environment: dict[str, str]) -> dict[str, str]:
    """Reads pip's configuration files and `PIP_*` variables; variables take precedence, as in pip."""
    files = [os.path.expanduser(name) for name in (*PIP_FILES, environment.get("PIP_CONFIG_FILE", ""))]  # noqa: PTH111
    parser = configparser.RawConfigParser()
    parser.read(files)
    settings = dict(parser.items("global")) if parser.has_section("global") else {}
    for name in PIP_TO_UV:
        variable = "PIP_" + name.upper().replace("-", "_")
        if variable in environment:
            settings[name] = environment[variable]
    return settings


def recent_uv(path: str | None) -> str:
    """Returns `path` if the uv there starts and is recent enough, else an empty text."""
    version = re.match(r"uv (\d+)\.(\d+)", output_of([path, "--version"])) if path else None
    if not path or not version or (int(version[1]), int(version[2])) < OLDEST_UV:
        return ""
    return path


def make_environment(folder: Path, with_pip: bool) -> None:
    is_environment = (folder / "pyvenv.cfg").is_file()
    if folder.exists() and any(folder.iterdir()) and not is_environment:
        raise SystemExit(
            f"gpuproof: {folder} exists but is not a virtual environment; move it away and try again."
        )
    if with_pip and find_spec("ensurepip") is None:
        name = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
        raise SystemExit(
            "gpuproof: this Python cannot create a virtual environment with pip (it has no module ensurepip).\n"
            f"Debian, Ubuntu: sudo apt install {name}     or install uv and try again"
        )
    keep = is_environment and is_this_python(folder)
    venv.create(str(folder), with_pip=with_pip, clear=not keep, symlinks=True)


def is_this_python(folder: Path) -> bool:
    version = output_of([str(python_of(folder)), "-c", "import sys; print(*sys.version_info[:2])"])
    return version.split() == [str(part) for part in sys.version_info[:2]]


def uv_of(folder: Path, environment: dict[str, str]) -> str:
    """Returns the uv in the environment; installs it with pip if it is missing."""
    own = recent_uv(str(folder / "bin" / "uv"))
    if own:
        return own
    print("gpuproof: no recent uv on PATH; installing one into the environment", file=sys.stderr, flush=True)
    oldest = ".".join(str(part) for part in OLDEST_UV)
    run([str(python_of(folder)), "-m", "pip", "install", "--quiet", f"uv>={oldest}"], environment)
    return str(folder / "bin" / "uv")


def python_of(folder: Path) -> Path:
    return folder / "bin" / "python"


def output_of(command: list[str]) -> str:
    """Returns the output of a command, or an empty text if it fails or does not exist."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=str(ROOT), env=environment, check=False)
    if done.returncode != 0:
        raise SystemExit(f"gpuproof: set-up failed (exit code {done.returncode}): {' '.join(command)}")


if __name__ == "__main__":
    main()
