"""Hosts in network namespaces, as root and as a plain user: names, connections, the way out, and that nothing remains."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.hosts import Egress, Forward, HostNetwork, NetworkUnavailable
from support.cli_sandbox import until

ALLOWED = (
    subprocess.run(["unshare", "--user", "--net", "--mount", "true"], capture_output=True).returncode == 0
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ALLOWED, reason="this host allows no network namespaces"),
]
PATIENCE = 300
_LARGE = 10_000_000

# Creates a network and starts a program on each host; prints what the programs print, by host.
_SCENARIO = """
import json, os, subprocess, sys
from gpuproof.agent.hosts import Egress, HostNetwork
names, egress, agent, program = json.loads(sys.argv[1])
started = {}
with HostNetwork.create(names, None if egress is None else Egress.from_environment({}, egress)) as network:
    for name in names:
        command = [sys.executable, "-c", agent, "--in-host", network.entry(name).to_json(), sys.executable, "-c", program, name]
        environment = {**os.environ, **network.environment}
        started[name] = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    print(json.dumps({name: process.communicate()[0] for name, process in started.items()}))
sys.exit(any(process.returncode for process in started.values()))
"""
AGENT = "import sys; from gpuproof.agent.main import main; sys.exit(main())"
AS_PLAIN_USER = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]


@pytest.fixture(params=["current", "plain"])
def user(request: pytest.FixtureRequest) -> list[str]:
    """What starts a program as the current user, or as a plain user without privileges."""
    if request.param == "plain" and os.geteuid() != 0:
        pytest.skip("the current user is a plain user")
    return AS_PLAIN_USER if request.param == "plain" else []


def run_on_hosts(
    program: str, names: Sequence[str], user: Sequence[str] = (), egress: Sequence[int] | None = None
) -> dict[str, str]:
    """What a program prints on each host; its argument is the host's name."""
    words = [*user, sys.executable, "-c", _SCENARIO, json.dumps([names, egress, AGENT, program])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# Every host listens at the same port, and sends its name to each client that connects.
_GREET = """
import json, os, socket, sys, threading, time
from gpuproof.util.sandbox import CLONE_NEWNS, unshare_as_user
# As the agent does, for a private /opt/ml; before there is a second thread.
unshare_as_user(CLONE_NEWNS)
server = socket.create_server(("", 7777))
answered = []
def answer():
    while len(answered) < 3:
        connection, (address, _) = server.accept()
        connection.sendall(f"{sys.argv[1]} to {address}".encode())
        connection.close()
        answered.append(address)
thread = threading.Thread(target=answer)
thread.start()
heard = []
for name in ("algo-1", "algo-2", "algo-3"):
    while True:
        try:
            with socket.create_connection((name, 7777)) as connection:
                heard.append(connection.recv(99).decode())
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
thread.join()
try:
    socket.create_connection(("192.0.2.1", 80), 30)
    outside = "connected"
except OSError as error:
    outside = error.strerror
print(json.dumps({
    "heard": heard, "hostname": socket.gethostname(), "interfaces": [name for _, name in socket.if_nameindex()],
    "localhost": socket.gethostbyname("localhost"), "outside": outside, "proxy": os.environ.get("HTTP_PROXY"),
    "uid": os.getuid(),
}))
"""


def test_hosts_reach_each_other_by_name_at_the_same_port_and_nothing_else(user: list[str]) -> None:
    devices = socket.if_nameindex()
    said = run_on_hosts(_GREET, ["algo-1", "algo-2", "algo-3"], user)
    assert socket.if_nameindex() == devices
    for number in (1, 2, 3):
        found: dict[str, Any] = json.loads(said[f"algo-{number}"])
        here = f"10.77.0.{number}"
        assert found == {
            "heard": [f"algo-{other} to {here}" for other in (1, 2, 3)],
            "hostname": f"algo-{number}",
            "interfaces": ["lo", "eth0"],
            "localhost": "127.0.0.1",
            "outside": "Network is unreachable",
            "proxy": None,
            "uid": 1000 if user else os.getuid(),
        }


@pytest.fixture
def server() -> Iterator[int]:
    """A web server on this machine's loopback device; its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f"{self.path} {self.headers['Host']} {self.headers.get('Proxy-Connection')}".encode()
            if self.path == "/large":
                body = bytes(_LARGE)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name is inherited
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield listening.server_port
        listening.shutdown()
        thread.join()


def test_hosts_reach_forwarded_ports_and_the_rest_of_the_network_through_the_proxy(
    server: int, user: list[str]
) -> None:
    program = f"""
import http.client, json, os, socket, urllib.request
direct = urllib.request.urlopen("http://127.0.0.1:{server}/direct").read().decode()
# The machine's own address, which only the proxy reaches.
os.environ["no_proxy"] = os.environ["NO_PROXY"] = ""
proxied = urllib.request.urlopen("http://127.0.0.1:{server}/a%20b?c=d").read().decode()
def connect():
    return http.client.HTTPConnection(os.environ["HTTPS_PROXY"][len("http://"):])
proxy = connect()
proxy.set_tunnel("localhost", {server})
proxy.request("GET", "/tunnel")
tunnel = proxy.getresponse().read().decode()
large = len(urllib.request.urlopen("http://localhost:{server}/large").read())
def refused(url, headers={{}}):
    proxy = connect()
    proxy.request("GET", url, headers=headers)
    return proxy.getresponse().status
closed = refused("http://127.0.0.1:1/", {{"Proxy-Connection": "close"}})
print(json.dumps([direct, proxied, tunnel, large, closed, refused("/path")]))
"""
    here = f"127.0.0.1:{server}"
    for said in run_on_hosts(program, ["algo-1", "algo-2"], user, egress=[server]).values():
        assert json.loads(said) == [
            f"/direct {here} None",
            f"/a%20b?c=d {here} None",
            f"/tunnel localhost:{server} None",
            _LARGE,
            *(502, 400),
        ]


def test_an_address_that_is_not_loopback_is_forwarded_too(server: int) -> None:
    program = (
        f"import urllib.request; print(urllib.request.urlopen('http://169.254.169.254:{server}/').status)"
    )
    egress = Egress([Forward("169.254.169.254", server, "127.0.0.1")])
    with HostNetwork.create(["algo-1"], egress) as network:
        words = ["--in-host", network.entry("algo-1").to_json(), sys.executable, "-c", program]
        environment = {**os.environ, **network.environment}
        done = subprocess.run(
            [sys.executable, "-c", AGENT, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert done.stdout == "200\n", done.stderr


def test_sixty_four_hosts_reach_each_other() -> None:
    names = [f"algo-{number}" for number in range(1, 65)]
    with HostNetwork.create(names) as network:
        first, last = (
            subprocess.Popen(
                [sys.executable, "-c", AGENT, "--in-host", network.entry(name).to_json(), *command],
                stdout=subprocess.PIPE,
                text=True,
            )
            for name, command in (
                ("algo-1", [sys.executable, "-c", "import socket; s = socket.create_server(('', 7777)); print(s.accept()[1][0])"]),
                ("algo-64", ["bash", "-c", "until (echo > /dev/tcp/algo-1/7777) 2> /dev/null; do sleep 0.05; done"]),
            )
        )  # fmt: skip
        assert last.wait(PATIENCE) == 0
        assert first.communicate(timeout=PATIENCE)[0] == "10.77.0.64\n"


@pytest.mark.parametrize("victim", ["holder", "parent"])
def test_nothing_remains_when_the_holder_or_its_parent_is_killed(victim: str) -> None:
    code = (
        "import sys; from gpuproof.agent.hosts import Egress, HostNetwork\n"
        "network = HostNetwork.create(['algo-1', 'algo-2'], Egress())\n"
        "print(network.entry('algo-1').to_json(), flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    entry = json.loads(parent.stdout.readline())
    holder = entry["holder"]
    network = os.stat(f"/proc/{holder}/fd/{entry['network']}").st_ino
    os.kill(holder if victim == "holder" else parent.pid, signal.SIGKILL)
    until(lambda: not _is_running(holder), "the end of the holder")
    assert not [file for file in Path("/proc").glob("[0-9]*/ns/net") if _inode(file) == network]
    parent.stdin.close()
    parent.stdout.close()
    parent.wait(PATIENCE)


def test_a_machine_without_network_namespaces_says_why() -> None:
    code = (
        "from pathlib import Path; from gpuproof.agent.hosts import HostNetwork, NetworkUnavailable\n"
        "Path('/proc/sys/user/max_net_namespaces').write_text('0')\n"
        "try: HostNetwork.create(['algo-1'])\n"
        "except NetworkUnavailable as error: print(error)"
    )
    words = ["unshare", "--user", "--map-root-user", sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    if "max_net_namespaces" in done.stderr:
        pytest.skip("/proc/sys is read-only")
    assert done.stdout == "unshare: No space left on device\n", done.stderr


def test_too_many_hosts_are_refused() -> None:
    with pytest.raises(NetworkUnavailable, match="254"):
        HostNetwork.create([f"algo-{number}" for number in range(255)])


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _inode(file: Path) -> int | None:
    try:
        return file.stat().st_ino
    except OSError:
        return None


def test_programs_may_listen_at_all_ports(user: list[str]) -> None:
    if os.statvfs("/proc/sys").f_flag & os.ST_RDONLY:
        pytest.skip("/proc/sys is read-only here")
    listen = "import socket, sys; print(socket.create_server((sys.argv[1], 22)).getsockname()[1])"
    assert run_on_hosts(listen, ["algo-1", "algo-2"], user) == {"algo-1": "22\n", "algo-2": "22\n"}
