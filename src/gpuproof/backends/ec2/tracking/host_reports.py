"""What the hosts of a run on EC2 have written to S3 about themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuproof.backends.aws import Aws
from gpuproof.backends.remote.s3_layout import RunLayout

BOOT, END, STATE = "boot.json", "end.json", "run.json"


@dataclass(frozen=True)
class HostReport:
    """The files of one host; see `gpuproof.agent.ec2_host`.

    Args:
        boot: its phase and the time of each; empty before it has booted.
        end: how it ended; empty before.
        state: the state of its agent at the end; empty if it was not read.
    """

    boot: Mapping[str, Any] = field(default_factory=dict[str, Any])
    end: Mapping[str, Any] = field(default_factory=dict[str, Any])
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def phase(self) -> str | None:
        """`Starting`, `Downloading`, `Training` or `Uploading`; None before it has booted."""
        phase = self.boot.get("phase")
        return phase if isinstance(phase, str) else None

    def time_of(self, phase: str) -> float | None:
        """When a phase began, in seconds since the epoch; None if it has not."""
        times = self.boot.get("times")
        return _seconds(times.get(phase)) if isinstance(times, Mapping) else None

    @property
    def notes(self) -> list[str]:
        """What it has noted so far, and what its checks of the GPUs have warned of (`D703: GPU 0 has …`), as in the notes of its end."""
        found, notes = self.boot.get("findings"), self.boot.get("notes")
        findings = [match for match in found if isinstance(match, Mapping)] if isinstance(found, list) else []
        return [
            *(map(str, notes) if isinstance(notes, list) else ()),
            *(
                f"{finding.get('code')}: {finding.get('message')}"
                for finding in findings
                if finding.get("severity") == "warning"
            ),
        ]

    def end_time(self, name: str) -> float | None:
        """A time of `end.json`, in seconds since the epoch: `started`, `script_started` or `ended`."""
        return _seconds(self.end.get(name))


def read_host_reports(
    aws: Aws, bucket: str, run_id: str, hosts: Sequence[str], *, with_state: bool = False
) -> dict[str, HostReport]:
    """The reports of a run's hosts, by host; one request for a host that has ended, two before.

    Args:
        with_state: also read the final state of the agents of hosts that have ended.
    """
    layout = RunLayout(run_id)

    def read(host: str, name: str) -> dict[str, Any]:
        return _parsed(aws.get_bytes(bucket, layout.host_file(host, name)))

    found: dict[str, HostReport] = {}
    for host in hosts:
        if end := read(host, END):
            found[host] = HostReport(end=end, state=read(host, STATE) if with_state else {})
        else:
            found[host] = HostReport(boot=read(host, BOOT))
    return found


def are_silent(reports: Mapping[str, HostReport]) -> bool:
    """Whether no host has reported anything."""
    return not any(report.phase or report.end for report in reports.values())


def _parsed(content: bytes | None) -> dict[str, Any]:
    """The JSON object in a file; empty for anything else."""
    try:
        document = json.loads(content or b"")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
