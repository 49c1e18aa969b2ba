"""Stands in for `docker` in AWS's container tests: `docker run IMAGE serve` starts GPUproof's server in a private `/opt/ml`.

It understands the commands of those tests only: `volume create`, `volume rm`, `run`, `rm`. Its state is in the folder
`CONFORMANCE_DOCKER`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
from pathlib import Path

from gpuproof.agent.isolation.opt_ml_mounts import enter_private_contract
from gpuproof.agent.job import Mount

_ML = "/opt/ml/"


def main(words: list[str]) -> int:
    """Run one command."""
    state = Path(os.environ["CONFORMANCE_DOCKER"])
    match words:
        case ["volume", "create", *rest]:
            options = _volume_options(rest)
            (state / options.name).symlink_to(dict(item.split("=", 1) for item in options.opt)["device"])
        case ["volume", "rm", name]:
            (state / name).unlink()
        case ["run", *rest]:
            _run(state, rest)
        case ["rm", "-f", name]:
            _stop(state / f"{name}.pid")
        case _:
            print(f"docker: not known here: {words}", file=sys.stderr)
            return 1
    return 0


def _volume_options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name")
    parser.add_argument("--opt", action="append", default=[])
    return parser.parse_args(words)


def _run(state: Path, words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name")
    parser.add_argument("--mount", action="append", default=[])
    parser.add_argument("-e", dest="environment", action="append", default=[])
    parser.add_argument("-p")
    parser.add_argument("image")
    parser.add_argument("command")
    given = parser.parse_args(words)
    (state / f"{given.name}.pid").write_text(str(os.getpid()))
    mounts: list[Mount] = []
    for mount in given.mount:
        members = dict(item.partition("=")[::2] for item in mount.split(","))
        source = str((state / members["source"]).resolve())
        mounts.append(Mount(source, members["target"].removeprefix(_ML), read_only="readonly" in members))
    disk = Path(tempfile.mkdtemp(dir=state))
    ml = disk / "ml"
    ml.mkdir()
    enter_private_contract(ml, mounts)
    environment = {**os.environ, **dict(item.split("=", 1) for item in given.environment)}
    os.chdir("/")
    command = [sys.executable, "-m", "gpuproof.serve"]
    os.execve(sys.executable, command, environment)


def _stop(pid_file: Path) -> None:
    if pid_file.exists():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid_file.read_text()), signal.SIGTERM)
        pid_file.unlink()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
