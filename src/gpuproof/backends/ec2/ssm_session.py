"""Sessions on a run's instances through AWS Systems Manager: the instances have no open ports and no SSH keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.hosts import host_names, require_host
from gpuproof.errors import GPUproofError

_CONNECTING_SECONDS = 180.0
"""How long after the launch the agent of Systems Manager may still be starting."""

_GUIDE = "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-troubleshooting.html"


PORT_FORWARDING = "AWS-StartPortForwardingSession"
"""The document of a session that forwards a port.

Source: https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-sessions-start.html#sessions-start-port-forwarding
"""


def session_command(
    aws: Aws,
    launch: LaunchRecord,
    instances: Mapping[str, Mapping[str, Any]],
    host: str,
    now: float,
    ports: tuple[int, int] | None = None,
) -> tuple[str, ...]:
    """The command of the AWS CLI that opens a session on one host of a run: a shell, or a tunnel.

    Args:
        aws: the client of the region of the instances.
        instances: descriptions by instance id; empty if the user may not describe them.
        host: such as `algo-1`.
        now: in seconds since the epoch.
        ports: forward the second one, of this machine, to the first one, of the host's loopback interface.

    Raises:
        UsageError: the run has no such host.
        GPUproofError: its instance is not running yet, or its agent has not connected to Systems Manager.
    """
    hosts = host_names(launch.instance_count)
    require_host(host, hosts, launch.run_id)
    if not launch.instances:
        raise GPUproofError(f"{launch.run_id} has no instance yet.", remedy="Try again in a minute.")
    instance = launch.instances[hosts.index(host)]
    described = instances.get(instance, {})
    if (state := described.get("State", {}).get("Name", "running")) != "running":
        raise GPUproofError(
            f"A session needs a running instance, and {instance} is {state}.",
            remedy=f"Its state: gpuproof show {launch.run_id}",
        )
    if not _is_connected(aws, instance):
        raise _not_connected(instance, described, now)
    command = ("aws", "ssm", "start-session", "--region", launch.region, "--target", instance)
    if ports is None:
        return command
    numbers = {"portNumber": [str(ports[0])], "localPortNumber": [str(ports[1])]}
    return (*command, "--document-name", PORT_FORWARDING, "--parameters", json.dumps(numbers))


def _is_connected(aws: Aws, instance: str) -> bool:
    """Whether a session can be opened, as far as the user may know."""
    try:
        return aws.is_connected(instance)
    except AwsRefused as refused:
        if not refused.is_permission:
            raise
        return True  # StartSession will tell


def _not_connected(instance: str, described: Mapping[str, Any], now: float) -> GPUproofError:
    message = f"Systems Manager cannot reach {instance}: the agent on it has not connected."
    launched = described.get("LaunchTime")
    if launched is not None and now - launched.timestamp() < _CONNECTING_SECONDS:
        return GPUproofError(message, remedy="It connects a minute or two after the launch: try again then.")
    profile = described.get("IamInstanceProfile", {}).get("Arn", "").rpartition("/")[2]
    named = f"the role of the instance profile {profile}" if profile else "the instance's role"
    return GPUproofError(
        message,
        remedy=f"Give {named} the permissions for it (or AWS's policy AmazonSSMManagedInstanceCore):\n"
        "gpuproof iam policy --on ec2 --role > role.json\n"
        "aws iam put-role-policy --role-name ROLE --policy-name gpuproof --policy-document file://role.json\n"
        f"If it has them, the subnet has no route to Systems Manager: {_GUIDE}",
    )
