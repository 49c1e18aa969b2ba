"""Markdown for a GitHub issue: everything useful for support, nothing private."""

from __future__ import annotations

import getpass
import platform
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuproof.doctor.machine import Machine
from gpuproof.doctor.report import LayerReport, Report, State
from gpuproof.findings import Finding
from gpuproof.version import __version__

PRINTED_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_MPS_PIPE_DIRECTORY",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NCCL_DEBUG",
    "NCCL_P2P_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TF_CPP_MIN_LOG_LEVEL",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_GPU_ALLOCATOR",
    "TF_GPU_THREAD_MODE",
    "TF_USE_LEGACY_KERAS",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
)
"""The only environment variables whose values are printed."""

_STATES = {
    State.OK: "ok",
    State.FINDINGS: "findings",
    State.FAILED: "failed",
    State.SKIPPED: "skipped",
    State.NOT_APPLICABLE: "nothing to check",
}

_PATTERNS = (
    (re.compile(r"\barn:aws[\w-]*:\S+"), "arn:..."),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}"), "<access key>"),
    (re.compile(r"\b(?:GPU|MIG)-[0-9a-fA-F]{8}[0-9a-fA-F-]*"), "GPU-<uuid>"),
    (re.compile(r"\b(?:i|vpc|subnet|sg|eni|ami)-[0-9a-f]{8,}\b"), "<aws id>"),
    (re.compile(r"\bip-\d+-\d+-\d+-\d+(?:\.[\w.-]+)?"), "<host>"),
    (re.compile(r"(?<![\d.])\d{12}(?![\d.])"), "<account>"),
    (re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+"), "<mail>"),
    (re.compile(r"(?<=/home/)[^/\s:'\"]+|(?<=/Users/)[^/\s:'\"]+"), "<user>"),
)

# NVIDIA's packages have versions of four numbers, like IPv4 addresses.
_ADDRESS = re.compile(
    r"(?P<version>(?:nvidia-[\w-]+ |cuDNN |[<>=]=?)\d[\d.]*)|"
    r"(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\d.])"
)


@dataclass(frozen=True)
class Private:
    """Names to remove from the report.

    Args:
        home: path of the home directory.
        user: the user's login name.
        host: the machine's host name.
    """

    home: str = ""
    user: str = ""
    host: str = ""

    @classmethod
    def here(cls) -> Private:
        """Names of the current user and machine."""
        try:
            user = getpass.getuser()
        except (KeyError, OSError):
            user = ""
        try:
            home = str(Path.home())
        except RuntimeError:
            home = ""
        return cls(home, user, socket.gethostname())


def render_markdown(report: Report, machine: Machine, private: Private | None = None) -> str:
    """Render the report, ready to be pasted into an issue."""
    private = private or Private.here()
    mode = "--quick" if machine.quick else "--full" if machine.full else ""
    system = f"{platform.system()} {platform.release()} ({platform.machine()})"
    lines = [
        f"### gpuproof doctor {mode}".rstrip(),
        "",
        f"- gpuproof {__version__}, Python {platform.python_version()}, {system}",
        *_packages(machine),
        *_environment(machine.environment),
        "",
        "| layer | state | |",
        "|---|---|---|",
        *(_row(layer) for layer in report.layers),
    ]
    for finding in report.findings:
        lines += ["", *_finding(finding)]
    return redact("\n".join(lines), private) + "\n"


def redact(text: str, private: Private) -> str:
    """Replace names, addresses, account IDs and home directories by placeholders."""
    if len(private.home) > 1:
        text = text.replace(private.home, "~")
    for pattern, word in _PATTERNS:
        text = pattern.sub(word, text)
    text = _ADDRESS.sub(lambda match: match[0] if match["version"] else "<address>", text)
    for name, word in ((private.host, "<host>"), (private.user, "<user>")):
        # Names of one or two letters, and root, occur in ordinary words and identify no one.
        if len(name) > 2 and name != "root":
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", word, text)
    return text


def _packages(machine: Machine) -> list[str]:
    packages = machine.packages
    if packages.problem is not None:
        return [f"- interpreter of the script: {packages.problem}"]
    installed = ", ".join(f"{name} {version}" for name, version in packages.versions.items())
    return [
        f"- interpreter of the script: Python {packages.python} ({packages.arch}); {installed or 'no framework'}"
    ]


def _environment(environment: Mapping[str, str]) -> list[str]:
    values = [f"`{name}={environment[name]}`" for name in PRINTED_VARIABLES if name in environment]
    return [f"- {', '.join(values)}"] if values else []


def _row(layer: LayerReport) -> str:
    details = layer.reason or ", ".join(layer.facts)
    return f"| {layer.layer.label} | {_STATES[layer.state]} | {details.replace('|', '/')} |"


def _finding(finding: Finding) -> list[str]:
    location = f" ({finding.location})" if finding.location else ""
    lines = [f"**{finding.code} {finding.severity}**{location}: {finding.message}"]
    if finding.evidence:
        lines += ["```text", *(line.replace("```", "'''") for line in finding.evidence), "```"]
    return lines
