"""States of EC2 instances, which moto changes only by requests: pending, running, shutting-down, terminated, stopping, stopped.

Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-lifecycle.html and
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gpuproof_emulator.protocol import ACCOUNT

CODES = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}
"""EC2's numbers of the states."""


class StateReason(NamedTuple):
    """Why an instance is in its state: `StateReason` of `DescribeInstances`."""

    code: str
    message: str


BY_INSTANCE = StateReason(
    "Client.InstanceInitiatedShutdown", "Client.InstanceInitiatedShutdown: Instance initiated shutdown"
)
BY_USER = StateReason("Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown")
RECLAIMED = StateReason(
    "Server.SpotInstanceTermination", "Server.SpotInstanceTermination: Spot instance termination"
)
NOT_STARTED = StateReason("Server.InternalError", "Server.InternalError: Internal error on launch")


def set_state(region: str, instance_id: str, state: str, reason: StateReason | None = None) -> None:
    """Set the state of an instance that moto knows.

    Args:
        state: a key of `CODES`.
        reason: None to keep it.
    """
    instance = _instances(region)[instance_id]
    instance.instance_state.name = state
    instance.instance_state.code = CODES[state]
    if reason is not None:
        instance.state_reason.code, instance.state_reason.message = reason


def state_of(region: str, instance_id: str) -> str:
    """The state of an instance that moto knows."""
    return _instances(region)[instance_id].instance_state.name


def set_private_address(region: str, instance_id: str, address: str) -> None:
    """Set the private IPv4 address of an instance that moto knows."""
    _instances(region)[instance_id].nics[0].private_ip_address = address


def tags_of(region: str, instance_id: str) -> dict[str, str]:
    """The tags of an instance that moto knows."""
    return {tag["key"]: tag["value"] for tag in _instances(region)[instance_id].get_tags()}


def instances_with_user_data() -> Iterator[tuple[str, str]]:
    """Region and id of each instance that has user data and is not terminated."""
    for region in _backends():
        for instance_id, instance in _instances(region).items():
            if instance.user_data and instance.instance_state.name != "terminated":
                yield region, instance_id


def _instances(region: str) -> dict[str, Any]:
    return {instance.id: instance for instance in _backends()[region].all_instances()}


def _backends() -> Any:
    from moto.ec2.models import ec2_backends  # loads slowly, and is loaded when the emulator starts

    return ec2_backends[ACCOUNT]
