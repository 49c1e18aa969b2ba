"""Creates what a plan's network lacks: GPUproof's security group, and its rule for jobs with several hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.ec2.planning.network import Network, rule_call
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.remote.execute import execute

_DELAYS = (2.0, 5.0, 10.0)
"""Seconds between attempts with a new group, which may become visible some seconds later."""


def create_network(
    aws: Aws, network: Network, progress: SubmitProgress, sleep: Callable[[float], None]
) -> Network:
    """Create the security group of all runs in the VPC, which is kept; returns the network with its id.

    Args:
        aws: the client of the network's region.
        sleep: waits for a number of seconds.

    Raises:
        GPUproofError: a request failed.
    """
    groups = network.groups
    for call in network.calls:
        progress.step(call.what)
        if call.operation == "create_security_group":
            groups = (_create_group(aws, call),)
        else:
            _add_rule(aws, rule_call(groups[0]), sleep)
    return replace(network, groups=groups, calls=())


def _create_group(aws: Aws, call: ApiCall) -> str:
    try:
        return execute(aws, call)["GroupId"]
    except (AwsRefused, AwsUnreachable) as error:
        duplicate = isinstance(error, AwsRefused) and error.code == "InvalidGroup.Duplicate"
        if not duplicate and not error.maybe_done:
            raise
        # Another run, or the request whose response was lost, has created it.
        group = aws.security_group(call.request["GroupName"], call.request["VpcId"])
        if group is None:
            raise
        return group


def _add_rule(aws: Aws, call: ApiCall, sleep: Callable[[float], None]) -> None:
    for delay in (*_DELAYS, None):
        try:
            execute(aws, call)
        except (AwsRefused, AwsUnreachable) as error:
            code = error.code if isinstance(error, AwsRefused) else ""
            if code == "InvalidPermission.Duplicate":
                return  # another run has added it
            if delay is None or (code != "InvalidGroup.NotFound" and not error.maybe_done):
                raise
            sleep(delay)
        else:
            return
