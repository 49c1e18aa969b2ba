"""Looks for barriers in a page of a browser with axe-core (https://github.com/dequelabs/axe-core), from its npm package."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from support.browser import Page

_PACKAGE = "axe-core@4.14.1"
_SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
_LIMIT_S = 600.0
_RUN = """axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations
    .filter(rule => ["serious", "critical"].includes(rule.impact))
    .map(rule => `${rule.id}: ${rule.help}: ${rule.nodes.slice(0, 3).map(node => node.html + node.failureSummary).join(" | ")}`))"""

# Half of a transition between two colour schemes has colours of neither.
_AT_REST = """document.getAnimations().forEach(each =>
    each.effect.getComputedTiming().endTime === Infinity ? each.cancel() : each.finish())"""


def serious_findings(page: Page) -> list[str]:
    """What axe-core finds in the page as it is, of serious or critical impact; skips the test where axe-core is missing."""
    page.evaluate(_source())
    page.evaluate(_AT_REST)
    return page.evaluate(_RUN)


def _source() -> str:
    folder = Path(sys.prefix) / "environments"
    folder.mkdir(exist_ok=True)
    file = folder / f"{_PACKAGE.replace('@', '-')}.js"
    # Several test processes may fetch it at the same time.
    with (folder / "axe-core.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            _download(folder, file)
    return file.read_text(encoding="utf-8")


def _download(folder: Path, file: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm that could download axe-core")
    done = subprocess.run(
        [npm, "pack", _PACKAGE, "--pack-destination", str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )
    if done.returncode != 0:
        pytest.skip(f"npm cannot download {_PACKAGE}: {done.stderr.strip()[-300:]}")
    archive = folder / f"{_PACKAGE.replace('@', '-')}.tgz"
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    assert digest == _SHA512, f"{_PACKAGE} is not the package that the tests know"
    with tarfile.open(archive) as package:
        member = package.extractfile("package/axe.min.js")
        assert member is not None
        partial = file.with_suffix(".partial")
        partial.write_bytes(member.read())
    partial.replace(file)
    archive.unlink()
