"""The serial consoles of instances: evidence where a host has left no report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.ec2.tracking.host_reports import HostReport
from gpuproof.backends.hosts import host_names

_MAX_LINES = 2000


def read_consoles(
    aws: Aws, launch: LaunchRecord, reports: Mapping[str, HostReport]
) -> dict[str, Sequence[str]]:
    """The last lines of the console of each instance whose host left no report, by instance.

    Args:
        aws: the client of the instances' region.
        reports: what each host has written, by host.
    """
    hosts = dict(zip(host_names(launch.instance_count), launch.instances, strict=False))
    found: dict[str, Sequence[str]] = {}
    for host, instance in hosts.items():
        if reports.get(host, HostReport()).end:
            continue
        try:
            lines = aws.console_output(instance).splitlines()
        except AwsRefused:
            continue
        if lines:
            found[f"console of {instance}"] = lines[-_MAX_LINES:]
    return found
