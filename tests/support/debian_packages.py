"""Programs of Debian packages without installing them: apt downloads the files, and dpkg unpacks them into a cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

_QUERY_S = 120.0
_DOWNLOAD_S = 300.0
_NO_WAIT = ["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10"]


class PackagesUnavailable(Exception):
    """The packages cannot be downloaded here; the text says why."""


def unpack(*packages: str) -> Path:
    """The folder into which these packages and what they need beyond the installed ones are unpacked.

    Raises:
        PackagesUnavailable: this is no Debian, or its packages cannot be reached.
    """
    missing = [program for program in ("apt-get", "dpkg") if shutil.which(program) is None]
    if missing:
        raise PackagesUnavailable(f"{' and '.join(missing)} not found: no Debian packages can be unpacked")
    cache = _cache()
    release = Path("/etc/os-release").read_bytes()
    name = hashlib.sha256(b"\0".join([release, *(package.encode() for package in packages)])).hexdigest()[:16]
    folder = cache / name
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=cache, prefix=name) as scratch:
                partial = Path(scratch) / "root"
                partial.mkdir()
                _download(packages, partial, cache)
                partial.rename(folder)
    return folder


def library_folders(root: Path) -> list[Path]:
    """The folders below `root` that the dynamic linker would search if `root` were the system's."""
    return sorted(path for base in ("lib", "usr/lib") for path in (root / base).glob("*-linux-gnu*"))


def _download(packages: Sequence[str], folder: Path, cache: Path) -> None:
    try:
        _unpack_newest(packages, folder, [])
    except PackagesUnavailable:
        # No package lists yet, or old ones. Lists of our own need no rights, and leave the system's alone.
        lists = cache / "lists"
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        own = ["-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={cache}", "-o", "APT::Sandbox::User="]
        _apt(["update", *own], _DOWNLOAD_S, cache)
        _unpack_newest(packages, folder, own)


def _unpack_newest(packages: Sequence[str], folder: Path, options: Sequence[str]) -> None:
    needed = _apt(["-s", "--no-install-recommends", *options, "install", *packages], _QUERY_S, folder)
    names = [line.split()[1] for line in needed.splitlines() if line.startswith("Inst ")]
    # What is installed already must come along: its programs are expected in the same folder.
    names = sorted({*names, *packages})
    with tempfile.TemporaryDirectory(dir=folder) as downloads:
        _apt(["download", *options, *names], _DOWNLOAD_S, Path(downloads))
        for file in sorted(Path(downloads).glob("*.deb")):
            subprocess.run(["dpkg", "-x", str(file), str(folder)], check=True, capture_output=True)


def _apt(words: Sequence[str], limit: float, folder: Path) -> str:
    try:
        done = subprocess.run(
            ["apt-get", "-q", *_NO_WAIT, *words],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=limit,
            check=True,
            env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
        )
    except subprocess.TimeoutExpired:
        raise PackagesUnavailable(f"apt-get {words[0]} took longer than {limit:g} s") from None
    except subprocess.CalledProcessError as failure:
        lines = [line for line in failure.stderr.splitlines() if line.startswith("E:")] or ["no message"]
        raise PackagesUnavailable(f"apt-get {words[0]}: {lines[-1]}") from None
    return done.stdout


def _cache() -> Path:
    cache = Path(tempfile.gettempdir()) / f"gpuproof-tests-debian-{os.getuid()}"
    cache.mkdir(exist_ok=True)
    return cache
