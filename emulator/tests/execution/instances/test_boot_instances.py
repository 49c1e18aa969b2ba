"""`gpuproof emulator --boot-instances`: an instance that is launched with user data runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.aws_emulator import RunningEmulator, running_emulator
from support.simulated_instance import aws_cli_in_path, require_simulated_instance

pytestmark = pytest.mark.slow

_PATIENCE_S = 300.0
IMAGE = "ami-12c6146b"
# Prints what the metadata service says at a path, as soon as it says something.
WAIT_FOR = """#!/bin/sh
{before}
/opt/pytorch/bin/python3 - <<'END'
import time, urllib.error, urllib.request
service = "http://169.254.169.254/latest/"
header = "X-aws-ec2-metadata-token"
put = urllib.request.Request(service + "api/token", headers={{header + "-ttl-seconds": "600"}}, method="PUT")
token = urllib.request.urlopen(put).read().decode()
while True:
    try:
        found = urllib.request.urlopen(urllib.request.Request(service + "{path}", headers={{header: token}}))
        break
    except urllib.error.HTTPError:
        time.sleep(0.1)
print("found", found.read().decode(), flush=True)
END
{after}
"""


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    require_simulated_instance()
    with (
        aws_cli_in_path(),
        running_emulator(tmp_path_factory.mktemp("aws"), words=("--boot-instances",)) as running,
    ):
        yield running


class Instance:
    """An instance that was launched."""

    def __init__(self, ec2: Any, instance_id: str) -> None:
        self._ec2 = ec2
        self.id = instance_id

    @classmethod
    def launch(cls, emulator: RunningEmulator, user_data: str, count: int, **request: Any) -> list[Instance]:
        """Launch instances with one request, in the order of their launch indexes."""
        ec2 = emulator.client("ec2")
        launched = ec2.run_instances(
            ImageId=IMAGE,
            MinCount=count,
            MaxCount=count,
            UserData=user_data,
            InstanceType="g5.xlarge",
            **request,
        )["Instances"]
        return [
            cls(ec2, item["InstanceId"]) for item in sorted(launched, key=lambda one: one["AmiLaunchIndex"])
        ]

    @property
    def description(self) -> dict[str, Any]:
        (reservation,) = self._ec2.describe_instances(InstanceIds=[self.id])["Reservations"]
        return reservation["Instances"][0]

    @property
    def state(self) -> str:
        return self.description["State"]["Name"]

    @property
    def console(self) -> str:
        return self._ec2.get_console_output(InstanceId=self.id)["Output"]

    def wait_for(self, is_true: Callable[[], bool]) -> None:
        end = time.monotonic() + _PATIENCE_S
        while not is_true():
            assert time.monotonic() < end, (self.description, self.console)
            time.sleep(0.05)


def launch(emulator: RunningEmulator, user_data: str, **request: Any) -> Instance:
    """Launch one instance."""
    (instance,) = Instance.launch(emulator, user_data, 1, **request)
    return instance


def test_an_instance_runs_its_user_data_and_its_shutdown_terminates_it(emulator: RunningEmulator) -> None:
    script = WAIT_FOR.format(
        before="nvidia-smi -L", path="meta-data/tags/instance/colour", after="shutdown -h now"
    )
    instance = launch(
        emulator,
        script,
        MetadataOptions={"HttpTokens": "required", "InstanceMetadataTags": "enabled"},
        InstanceInitiatedShutdownBehavior="terminate",
    )
    instance.wait_for(lambda: "GPU 0: NVIDIA A10G" in instance.console)
    instance.wait_for(lambda: instance.state == "running")
    emulator.client("ec2").create_tags(
        Resources=[instance.id], Tags=[{"Key": "colour", "Value": "dark green"}]
    )
    instance.wait_for(lambda: instance.state == "terminated")
    assert instance.description["StateReason"]["Code"] == "Client.InstanceInitiatedShutdown"
    assert "found dark green\n" in instance.console


def test_a_spot_instance_is_warned_and_reclaimed(emulator: RunningEmulator) -> None:
    script = WAIT_FOR.format(before="", path="meta-data/spot/instance-action", after="sleep 600")
    instance = launch(emulator, script, InstanceMarketOptions={"MarketType": "spot"})
    instance.wait_for(lambda: instance.state == "running")
    emulator.interrupt_spot(instance.id, 3600.0)
    instance.wait_for(lambda: 'found {"action": "terminate"' in instance.console)
    assert instance.state == "running"
    emulator.interrupt_spot(instance.id, 0.0)
    instance.wait_for(lambda: instance.state == "terminated")
    assert instance.description["StateReason"]["Code"] == "Server.SpotInstanceTermination"


def test_a_rebalance_recommendation_ends_no_spot_instance(emulator: RunningEmulator) -> None:
    script = WAIT_FOR.format(
        before="", path="meta-data/events/recommendations/rebalance", after="echo goes on; sleep 600"
    )
    instance = launch(emulator, script, InstanceMarketOptions={"MarketType": "spot"})
    instance.wait_for(lambda: instance.state == "running")
    emulator.recommend_rebalance(instance.id)
    instance.wait_for(lambda: "goes on" in instance.console)
    assert 'found {"noticeTime": "20' in instance.console
    assert instance.state == "running"
    emulator.client("ec2").terminate_instances(InstanceIds=[instance.id])


def test_a_request_ends_a_machine(emulator: RunningEmulator) -> None:
    instance = launch(emulator, "#!/bin/sh\necho on\nsleep 600\n")
    instance.wait_for(lambda: "on\n" in instance.console)
    ec2 = emulator.client("ec2")
    with pytest.raises(ClientError, match="boots once"):
        ec2.reboot_instances(InstanceIds=[instance.id])
    ec2.terminate_instances(InstanceIds=[instance.id])
    instance.wait_for(lambda: instance.state == "terminated")
    assert instance.description["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    folder = emulator.state / "ec2" / instance.id
    instance.wait_for(lambda: not folder.exists())


def test_user_data_that_is_no_script_is_rejected(emulator: RunningEmulator) -> None:
    with pytest.raises(ClientError, match="only user data that is a script"):
        launch(emulator, "#cloud-config\n")


def test_instances_of_one_launch_reach_each_other(emulator: RunningEmulator) -> None:
    # The first knows the address of the second: it follows its own.
    script = """#!/bin/sh
exec /opt/pytorch/bin/python3 - <<'END'
import socket, subprocess, time, urllib.request
service = "http://169.254.169.254/latest/"
header = "X-aws-ec2-metadata-token"
put = urllib.request.Request(service + "api/token", headers={header + "-ttl-seconds": "600"}, method="PUT")
token = urllib.request.urlopen(put).read().decode()
def get(path):
    request = urllib.request.Request(service + "meta-data/" + path, headers={header: token})
    return urllib.request.urlopen(request).read().decode()
index, own = get("ami-launch-index"), get("local-ipv4")
if index == "1":
    with socket.create_server((own, 5000)) as server:
        connection, sender = server.accept()
        print("from", sender[0], connection.recv(99).decode(), flush=True)
else:
    beginning, last = own.rsplit(".", 1)
    for _ in range(1000):
        try:
            connection = socket.create_connection((beginning + "." + str(int(last) + 1), 5000))
            break
        except OSError:
            time.sleep(0.1)
    connection.sendall(b"hello")
subprocess.run(["shutdown", "-h", "now"])
END
"""
    first, second = Instance.launch(emulator, script, 2, InstanceInitiatedShutdownBehavior="terminate")
    second.wait_for(lambda: first.state == second.state == "terminated")
    assert f"from {first.description['PrivateIpAddress']} hello" in second.console
