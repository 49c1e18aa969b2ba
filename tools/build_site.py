"""Builds the documentation site: `python tools/build_site.py` writes static HTML to `build/site`.

The pages of `docs/` and those that are generated from the code are staged in `build/site-source` (`tools/site_source/`),
of which Zensical makes HTML. A warning, such as a link that leads nowhere, is an error.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from site_source.navigation import navigation
from site_source.pages import ROOT
from site_source.staging import stage


def main() -> int:
    """Stage the sources and build the site."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--stage", action="store_true", help="only write the sources")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "build", metavar="FOLDER", help="default: build"
    )
    arguments = parser.parse_args()
    configuration = write_sources(arguments.output.resolve())
    if arguments.stage:
        return 0
    return build(configuration)


def write_sources(folder: Path) -> Path:
    """Stage the sources in `FOLDER/site-source`, and return the path of the settings for Zensical."""
    pages = stage(folder / "site-source")
    settings = (ROOT / "site" / "mkdocs.yml").read_text(encoding="utf-8")
    settings = settings.replace("../src", str(ROOT / "src"))
    configuration = folder / "mkdocs.yml"
    configuration.write_text(f"{settings}\n{navigation(pages)}", encoding="utf-8")
    return configuration


def build(configuration: Path) -> int:
    """Run the site generator; returns its exit code."""
    shutil.rmtree(configuration.parent / "site", ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--clean",
        "--strict",
        "--config-file",
        str(configuration),
    ]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
