"""The programs that sessions of AWS Systems Manager need on this machine."""

from __future__ import annotations

import platform
import shutil
import sys

from gpuproof.errors import UsageError

_PLUGIN = "session-manager-plugin"
_PLUGINS = "https://s3.amazonaws.com/session-manager-downloads/plugin/latest"
"""Source: https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html"""


def require_programs(purpose: str) -> None:
    """Check that the AWS CLI and its plugin are installed.

    Args:
        purpose: what needs them, such as `gpuproof shell`.

    Raises:
        UsageError: one of them is not; the remedy is the command that installs it.
    """
    if shutil.which("aws") is None:
        raise UsageError(
            f"{purpose} needs the AWS CLI, which is not installed: there is no `aws` in PATH.",
            remedy="https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html, or: uv tool install awscli",
        )
    if shutil.which(_PLUGIN) is None:
        raise UsageError(
            f"{purpose} needs the AWS CLI's Session Manager plugin, which is not installed: there is no `{_PLUGIN}` in PATH.",
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
