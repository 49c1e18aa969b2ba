"""Makes the project's virtual environment: `python3 tools/setup_venv.py .venv`.

Needs Python 3.11 or later with its standard library and nothing else. uv installs the packages, because it takes a
minute where pip takes five: the uv on PATH where there is a recent one, else one that pip puts into the environment.
A second call with nothing changed ends at once. The file keeps to syntax that older Pythons can read, so that they
can be told what is wrong.
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
# The first uv whose `pip install` and `pip compile` both know dependency groups is 0.7; one more for good measure.
OLDEST_UV = (0, 8)
GROUPS = ("dev", "examples")
SOURCES = ("pyproject.toml", "constraints.txt", "tools/setup_venv.py")
# uv reads its own settings only; what a person has told pip about mirrors holds for uv too.
PIP_TO_UV = {
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "cert": "SSL_CERT_FILE",
}
PIP_FILES = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: python3 tools/setup_venv.py VENV")
    if sys.version_info < OLDEST_PYTHON:
        raise SystemExit(too_old())
    set_up(Path(sys.argv[1]).absolute())


def set_up(folder: Path) -> None:
    """Makes or mends the environment in `folder`; does nothing when it is already as it should be."""
    stamp = folder / ".gpuproof-setup"
    wanted = fingerprint()
    if stamp.is_file() and stamp.read_text() == wanted and works(folder):
        return
    environment = uv_environment(dict(os.environ))
    uv = recent_uv(shutil.which("uv"))
    make_environment(folder, with_pip=not uv)
    if not uv:
        uv = uv_of(folder, environment)
    print(f"gpuproof: installing what pyproject.toml asks for into {folder}", file=sys.stderr, flush=True)
    command = [uv, "pip", "install", "--python", str(python_of(folder)), "-c", "constraints.txt", "-e", "."]
    for group in GROUPS:
        command += ["--group", group]
    run(command, environment)
    stamp.write_text(wanted)


def too_old() -> str:
    have = ".".join(str(part) for part in sys.version_info[:3])
    return (
        f"gpuproof: Python 3.11 or later is needed; {sys.executable} is {have}.\n"
        "Name a newer one: make test PYTHON=python3.12   (Debian, Ubuntu: apt install python3.12 python3.12-venv)"
    )


def fingerprint() -> str:
    """Changes when the environment has to be made again."""
    digest = hashlib.sha256(f"{sys.version}\n{sys.base_prefix}\n{ROOT}\n".encode())
    for name in SOURCES:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest() + "\n"


def works(folder: Path) -> bool:
    """Whether the environment's interpreter still starts: an upgraded system may have taken it away."""
    return is_this_python(folder) and (folder / "bin" / "gpuproof").exists()


def uv_environment(environment: dict[str, str]) -> dict[str, str]:
    """The environment for uv, with pip's settings translated where uv has none of its own."""
    told = pip_settings(environment)
    for theirs, ours in PIP_TO_UV.items():
        values = told.get(theirs, "").split()
        if theirs == "find-links":
            # A folder that is not there is a warning to pip and the end to uv.
            values = [",".join(value for value in values if "://" in value or Path(value).is_dir())]
        if any(values) and not environment.get(ours):
            environment[ours] = " ".join(values)
    if told.get("extra-index-url"):
        # pip takes the best version of all indexes; uv by itself stops at the first that knows the name.
        environment.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    # The environment that the caller's shell happens to be in is not the one that is meant here.
    environment.pop("VIRTUAL_ENV", None)
    return environment


def pip_settings(environment: dict[str, str]) -> dict[str, str]:
    """What pip's configuration files and `PIP_*` variables say; a variable wins over a file, as in pip."""
    files = [os.path.expanduser(name) for name in (*PIP_FILES, environment.get("PIP_CONFIG_FILE", ""))]  # noqa: PTH111
    parser = configparser.RawConfigParser()
    parser.read(files)
    told = dict(parser.items("global")) if parser.has_section("global") else {}
    for name in PIP_TO_UV:
        variable = "PIP_" + name.upper().replace("-", "_")
        if variable in environment:
            told[name] = environment[variable]
    return told


def recent_uv(path: str | None) -> str:
    """`path` when the uv there starts and is recent enough, else an empty text."""
    version = re.match(r"uv (\d+)\.(\d+)", said_by([path, "--version"])) if path else None
    if not path or not version or (int(version[1]), int(version[2])) < OLDEST_UV:
        return ""
    return path


def make_environment(folder: Path, with_pip: bool) -> None:
    is_environment = (folder / "pyvenv.cfg").is_file()
    if folder.exists() and any(folder.iterdir()) and not is_environment:
        raise SystemExit(
            f"gpuproof: {folder} is there and is no virtual environment; move it away and try again."
        )
    if with_pip and find_spec("ensurepip") is None:
        name = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
        raise SystemExit(
            "gpuproof: this Python cannot make a virtual environment with pip in it (it has no module ensurepip).\n"
            f"Debian, Ubuntu: sudo apt install {name}     or install uv and try again"
        )
    keep = is_environment and is_this_python(folder)
    venv.create(str(folder), with_pip=with_pip, clear=not keep, symlinks=True)


def is_this_python(folder: Path) -> bool:
    version = said_by([str(python_of(folder)), "-c", "import sys; print(*sys.version_info[:2])"])
    return version.split() == [str(part) for part in sys.version_info[:2]]


def uv_of(folder: Path, environment: dict[str, str]) -> str:
    """The uv inside the environment, put there by pip when it is not yet."""
    own = recent_uv(str(folder / "bin" / "uv"))
    if own:
        return own
    print("gpuproof: no recent uv on PATH; installing one into the environment", file=sys.stderr, flush=True)
    oldest = ".".join(str(part) for part in OLDEST_UV)
    run([str(python_of(folder)), "-m", "pip", "install", "--quiet", f"uv>={oldest}"], environment)
    return str(folder / "bin" / "uv")


def python_of(folder: Path) -> Path:
    return folder / "bin" / "python"


def said_by(command: list[str]) -> str:
    """What a command prints, or an empty text when it fails or is not there."""
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
        raise SystemExit(f"gpuproof: set-up failed (exit code {done.returncode}) at: {' '.join(command)}")


if __name__ == "__main__":
    main()
