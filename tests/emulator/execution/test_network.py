"""Network isolation isolates a job from everything but its own hosts."""

from __future__ import annotations

import pytest

from support.emulator_jobs import Account, channel

pytestmark = pytest.mark.slow

MEET = """
import json, socket, time
with open("/opt/ml/input/config/resourceconfig.json") as file:
    first = json.load(file)["current_host"] == "algo-1"
if first:
    print(socket.create_server(("127.0.0.1", 7777)).accept()[0].recv(9))
while not first:
    try:
        socket.create_connection(("127.0.0.1", 7777)).send(b"hello")
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
"""


def test_network_isolation_isolates(aws: Account) -> None:
    reach = (
        "import os, socket, sys\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(server.getsockname()).close()\n"
        "try:\n"
        "    socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)\n"
        "    print('reached')\n"
        "except ConnectionRefusedError:\n"
        "    print('isolated')\n"
    )
    port = aws.emulator.url.rpartition(":")[2]
    code = aws.put("code/reach.py", reach)
    data = {"InputDataConfig": [channel("code", code)]}
    script = f"python3 /opt/ml/input/data/code/reach.py {port}"
    assert aws.log(aws.trained(script, **data)["TrainingJobName"]) == ["reached"]
    isolated = aws.trained(script, EnableNetworkIsolation=True, **data)
    assert aws.log(isolated["TrainingJobName"]) == ["isolated"]
    source = {
        "InputName": "code",
        "S3Input": {
            "S3Uri": code,
            "LocalPath": "/opt/ml/processing/code",
            "S3DataType": "S3Prefix",
            "S3InputMode": "File",
        },
    }
    job = aws.processed(
        f"python3 /opt/ml/processing/code/reach.py {port}",
        ProcessingInputs=[source],
        NetworkConfig={"EnableNetworkIsolation": True},
    )
    assert aws.log(job["ProcessingJobName"], group="ProcessingJobs") == ["isolated"]


def test_isolated_hosts_reach_each_other(aws: Account) -> None:
    resources = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}
    job = aws.trained(
        "python3 /opt/ml/input/data/code/meet.py",
        EnableNetworkIsolation=True,
        ResourceConfig=resources,
        InputDataConfig=[channel("code", aws.put("code/meet.py", MEET))],
    )
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert aws.log(job["TrainingJobName"]) == ["b'hello'"]
