"""Open a shell on the instance of a run on EC2, through AWS Systems Manager. The instance needs no open port and no key.

It needs the AWS CLI and its Session Manager plugin on this machine. The job runs on; its files are in /opt/ml.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from typing import TYPE_CHECKING, NoReturn, cast

from gpuproof.cli.arguments import RUN_HELP, add_command
from gpuproof.errors import GPUproofError, RunNotFound, UsageError

if TYPE_CHECKING:
    from gpuproof.backends.ec2.run import EC2Run
    from gpuproof.cli.arguments import Subparsers

_BACKEND = "ec2"
_PLUGIN = "session-manager-plugin"
_PLUGINS = "https://s3.amazonaws.com/session-manager-downloads/plugin/latest"
"""Source: https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html"""


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof shell` to the command line."""
    parser = add_command(commands, "shell", "open a shell on the instance of a run on EC2", __doc__)
    parser.add_argument("run_name", nargs="?", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--host", default="algo-1", metavar="HOST", help="the host (default: algo-1)")
    parser.add_argument("--region", help="AWS region to search (default: AWS_REGION)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> NoReturn:
    """Entry point of `gpuproof shell`: replaces this process with the AWS CLI."""
    found = _find_run(arguments.run_name, arguments.region)
    _require_programs()
    command = found.shell_command(arguments.host)
    sys.stdout.flush()
    # Not a child: Ctrl-C and the size of the terminal concern the session alone.
    os.execvp(command[0], command)  # noqa: S606 - a shell has no part in it


def _find_run(name: str | None, region: str | None) -> EC2Run:
    from gpuproof.backends import registry  # as in `cli.arguments`

    try:
        return cast("EC2Run", registry.find_run(name, _BACKEND, region))
    except RunNotFound:
        if name is not None:
            _reject_other_backend(name, region)
        raise


def _reject_other_backend(name: str, region: str | None) -> None:
    """Raise UsageError if a backend without shells has the run."""
    from gpuproof.backends import registry

    others = [one for one in registry.searched_backends(region=region) if one.name != _BACKEND]
    try:
        found = registry.find_run_in(others, name, region) if others else None
    except GPUproofError:
        return
    if found is not None:
        where = registry.load_backend(found.backend).location
        raise UsageError(
            f"{found.id} runs {where}: gpuproof shell opens sessions on instances of EC2 only.",
            remedy=f"gpuproof logs -f {found.cli_name}",
        )


def _require_programs() -> None:
    """Raise UsageError if the AWS CLI or its plugin is not installed."""
    if shutil.which("aws") is None:
        raise UsageError(
            "gpuproof shell needs the AWS CLI, which is not installed: there is no `aws` in PATH.",
            remedy="https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html, or: uv tool install awscli",
        )
    if shutil.which(_PLUGIN) is None:
        raise UsageError(
            f"gpuproof shell needs the AWS CLI's Session Manager plugin, which is not installed: there is no `{_PLUGIN}` in PATH.",
            remedy=_install_command(),
        )


def _install_command() -> str:
    """How to install the plugin on this machine."""
    is_arm = platform.machine() in ("arm64", "aarch64")
    if sys.platform == "darwin":
        return f"brew install --cask {_PLUGIN}"
    if shutil.which("dpkg"):
        package = f"{_PLUGINS}/ubuntu_{'arm64' if is_arm else '64bit'}/{_PLUGIN}.deb"
        return f"curl -o {_PLUGIN}.deb {package} && sudo dpkg -i {_PLUGIN}.deb"
    if shutil.which("dnf"):
        return f"sudo dnf install -y {_PLUGINS}/linux_{'arm64' if is_arm else '64bit'}/{_PLUGIN}.rpm"
    return "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html"
