"""Markdown for a GitHub issue: everything useful for support, nothing private.

Names of this user and machine become placeholders, then only what `public_text` allows is printed.
"""

from __future__ import annotations

import getpass
import platform
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuproof.doctor.formats.public_text import REMOVED, publish, publish_value
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
"""The only environment variables whose values are printed, as far as `publish_value` allows."""

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
    (re.compile(r"\b(?:assumed-role|role|user|federated-user)/\S+"), "<identity>"),
    (re.compile(r"(?<=/home/)[^/\s:'\"]+|(?<=/Users/)[^/\s:'\"]+"), "<user>"),
)
_PROFILES = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")
_NAMES = ("USER", "LOGNAME", "SUDO_USER", "HOSTNAME", "SM_CURRENT_HOST")

# NVIDIA's packages have versions of four numbers, like IPv4 addresses.
_ADDRESS = re.compile(
    r"(?P<version>(?:nvidia-[\w-]+ |cuDNN |[<>=]=?)\d[\d.]*)|"
    r"(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\d.])"
)


@dataclass(frozen=True)
class Private:
    """Names to remove from the report.

    Args:
        others: other names, such as that of the AWS profile.
    """

    home: str = ""
    user: str = ""
    host: str = ""
    others: tuple[str, ...] = ()

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Private:
        """Names of the current user and machine, and those in the environment."""
        try:
            user = getpass.getuser()
        except (KeyError, OSError):
            user = ""
        try:
            home = str(Path.home())
        except RuntimeError:
            home = ""
        others = tuple(environment[name] for name in (*_PROFILES, *_NAMES) if environment.get(name))
        return cls(home, user, socket.gethostname(), others)


def render_markdown(report: Report, machine: Machine, private: Private | None = None) -> str:
    """Render the report, ready to be pasted into an issue."""
    private = private or Private.of(machine.environment)
    mode = "--quick" if machine.quick else "--full" if machine.full else ""
    system = f"{platform.system()} {platform.release()} ({platform.machine()})"
    lines = [
        f"- gpuproof {__version__}, Python {platform.python_version()}, {system}",
        *_packages(machine),
        "",
        "| layer | state | |",
        "|---|---|---|",
        *(_row(layer) for layer in report.layers),
    ]
    for finding in report.findings:
        lines += ["", *_finding(finding)]
    head = [f"### gpuproof doctor {mode}".rstrip(), "", *_environment(machine.environment)]
    return "\n".join([*head, publish(redact("\n".join(lines), private))]) + "\n"


def redact(text: str, private: Private) -> str:
    """Replace names, addresses, account IDs and home directories by placeholders."""
    if len(private.home) > 1:
        text = text.replace(private.home, "~")
    for pattern, word in _PATTERNS:
        text = pattern.sub(word, text)
    text = _ADDRESS.sub(lambda match: match[0] if match["version"] else "<address>", text)
    others = [(name, REMOVED) for name in sorted(private.others, key=len, reverse=True)]
    for name, word in ((private.host, "<host>"), (private.user, "<user>"), *others):
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
    values = [
        f"`{name}={publish_value(environment[name])}`" for name in PRINTED_VARIABLES if name in environment
    ]
    return [f"- {', '.join(values)}"] if values else []


def _row(layer: LayerReport) -> str:
    details = layer.reason or ", ".join(layer.facts)
    return f"| {layer.layer.label} | {_STATES[layer.state]} | {details.replace('|', '/')} |"


def _finding(finding: Finding) -> list[str]:
    named = finding.location is None or str(finding.location) in finding.message
    location = "" if named else f" ({finding.location})"
    lines = [f"**{finding.code} {finding.severity}**{location}: {_without_private(finding.message, finding)}"]
    if finding.evidence:
        evidence = (_without_private(line, finding).replace("```", "'''") for line in finding.evidence)
        lines += ["```text", *evidence, "```"]
    return lines


def _without_private(text: str, finding: Finding) -> str:
    for value in sorted(finding.private, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", REMOVED, text)
    return text
