"""A real Chromium without an installation: that of this machine, or the one in an npm package, unpacked once.

Browsers cannot be had from PyPI. The npm package @sparticuz/chromium carries a headless Chromium for x86_64 with the
libraries that it needs, so that no root and no package of the system is required.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

_PACKAGE = "@sparticuz/chromium@147.0.0"
_SHA512 = "4ZKeAQQa8up2mt675qSitztLdbQrlf8BKdC5naeap+5Mv1OV1OlJdPoU+EJC/p5sQUJUQmN4r+q5+EhaaOUHpQ=="
_INSTALLED = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_LIMIT_S = 600.0
_AGAIN_AFTER_S = 3600.0
_DECOMPRESS = """
const [from, to] = process.argv.slice(1), fs = require("fs");
fs.writeFileSync(to, require("zlib").brotliDecompressSync(fs.readFileSync(from)));
"""


@dataclass(frozen=True)
class Chromium:
    """A Chromium that can be started.

    Args:
        program: the executable.
        libraries: a folder for `LD_LIBRARY_PATH`; `None` if it needs none.
        flags: what it needs beside the usual flags.
    """

    program: Path
    libraries: Path | None = None
    flags: tuple[str, ...] = ()


def find_chromium() -> Chromium:
    """The Chromium of this machine or of the npm package; skips the test where neither is available."""
    for name in _INSTALLED:
        if (path := shutil.which(name)) is not None:
            return Chromium(Path(path), flags=("--headless=new",))
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        pytest.skip(f"no Chromium is installed, and {_PACKAGE} is for Linux on x86_64")
    folder = Path(sys.prefix) / "environments"
    folder.mkdir(exist_ok=True)
    home = folder / f"chromium-{_PACKAGE.rpartition('@')[2]}"
    # Several test processes may unpack it at the same time.
    with (folder / "chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / ".complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            _unpack(_downloaded(home), home)
            (home / ".complete").touch()
    # It is built without the zygote, from which other builds fork their processes.
    return Chromium(home / "chromium", home / "lib", ("--headless=shell", "--no-zygote"))


def _downloaded(home: Path) -> Path:
    """The package; skips the test, and those of the next hour, where it cannot be downloaded: each would wait as long."""
    failure = home.with_suffix(".failed")
    if failure.exists() and time.time() - failure.stat().st_mtime < _AGAIN_AFTER_S:
        pytest.skip(failure.read_text())
    try:
        return _download(home)
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        failure.write_text(
            f"no Chromium is installed, and npm cannot download {_PACKAGE}: {reason.strip()[-300:]}"
        )
        pytest.skip(failure.read_text())


def _download(home: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no Chromium is installed, and there is no npm that could download one")
    home.mkdir()
    subprocess.run(
        [npm, "pack", _PACKAGE, "--pack-destination", str(home)],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=True,
    )
    (archive,) = home.glob("*.tgz")
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    assert digest == _SHA512, f"{_PACKAGE} is not the package that the tests know"
    return archive


def _unpack(archive: Path, home: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node.js that could unpack Chromium")
    with tarfile.open(archive) as package:
        package.extractall(home, filter="data")
    for name, to in (("chromium", "chromium"), ("al2023.tar", "libraries.tar")):
        compressed = home / "package" / "bin" / f"{name}.br"
        subprocess.run([node, "-e", _DECOMPRESS, str(compressed), str(home / to)], check=True)
    with tarfile.open(home / "libraries.tar") as libraries:
        libraries.extractall(home, filter="data")
    os.chmod(home / "chromium", 0o755)
    for path in (archive, home / "libraries.tar"):
        path.unlink()
    shutil.rmtree(home / "package")
