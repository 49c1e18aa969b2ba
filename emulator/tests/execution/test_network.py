"""Hosts of a job reach each other by name; network isolation isolates them from everything else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.emulator_jobs import TWO_HOSTS, Account, channel

pytestmark = pytest.mark.slow

MEET = """
import json, os, socket, sys, time, urllib.error, urllib.request
with open("/opt/ml/input/config/resourceconfig.json") as file:
    resources = json.load(file)
own, interface = resources["current_host"], resources["network_interface_name"]
assert (socket.gethostname(), interface) == (own, "eth0"), resources
assert interface in [name for _, name in socket.if_nameindex()]
server = socket.create_server(("", 7777))
heard = []
for other in resources["hosts"]:
    while True:
        try:
            connection = socket.create_connection((other, 7777))
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    connection.send(own.encode())
for _ in resources["hosts"]:
    heard.append(server.accept()[0].recv(99).decode())
url = sys.argv[1]
def reach(proxies):
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
        opener.open(url)
    except urllib.error.HTTPError:
        pass  # it is not an answer that is wanted
    except OSError as error:
        return str(error.reason.strerror)
    return "reached"
proxy = os.environ.get("http_proxy")
print(json.dumps([sorted(heard), reach({}), reach({"http": proxy}) if proxy else None]))
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


@pytest.mark.parametrize(
    ("isolated", "outside"), [(False, ["reached", "reached"]), (True, ["Connection refused", None])]
)
def test_hosts_reach_each_other_by_name_and_only_without_isolation_the_emulator(
    aws: Account, isolated: bool, outside: list[object]
) -> None:
    job = aws.trained(
        f"python3 /opt/ml/input/data/code/meet.py {aws.emulator.url}",
        EnableNetworkIsolation=isolated,
        ResourceConfig=TWO_HOSTS,
        InputDataConfig=[channel("code", aws.put("code/meet.py", MEET))],
    )
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    for host in ("algo-1", "algo-2"):
        said = json.loads(aws.log(job["TrainingJobName"], host)[-1])
        assert said == [["algo-1", "algo-2"], *outside]


def test_hosts_share_the_machines_network_where_it_allows_no_other_and_the_emulator_says_so_once() -> None:
    code = (
        "from pathlib import Path; from gpuproof_emulator.execution.network import JobNetwork\n"
        "Path('/proc/sys/user/max_net_namespaces').write_text('0')\n"
        "for _ in range(2):\n"
        "    network = JobNetwork(['algo-1', 'algo-2'], isolated=False)\n"
        "    print(network.create('http://127.0.0.1:1', {}), network.interface, network.placement('algo-2'))"
    )
    words = ["unshare", "--user", "--map-root-user", sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    addresses = {"algo-1": "127.0.0.1", "algo-2": "127.0.0.2"}
    assert done.stdout == f"{{}} lo Placement(entry=None, addresses={addresses})\n" * 2
    assert done.stderr.count("the hosts share one network") == 1


def test_the_name_of_a_single_host_resolves(aws: Account) -> None:
    code = "import socket; print(socket.gethostbyname('algo-1'), socket.gethostbyname('localhost'))"
    job = aws.trained(f'python3 -c "{code}"')
    assert aws.log(job["TrainingJobName"]) == ["127.0.0.1 127.0.0.1"]
