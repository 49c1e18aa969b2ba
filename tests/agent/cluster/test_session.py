"""Agents of several hosts as real processes: how their jobs start and end."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.agent_hosts import AgentHosts

pytestmark = pytest.mark.slow

START = "import os, sys, time, signal\nhost = os.environ['SM_CURRENT_HOST']\nprint('runs', flush=True)\n"
FOREVER = START + "time.sleep(600)\n"


@pytest.fixture
def hosts(tmp_path: Path, agent_file: Path) -> Iterator[Callable[[int], AgentHosts]]:
    created: list[AgentHosts] = []

    def create(count: int) -> AgentHosts:
        created.append(AgentHosts(tmp_path / "job", agent_file, count))
        return created[-1]

    yield create
    for agent_hosts in created:
        agent_hosts.end()


def until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def until_all_run(job: AgentHosts) -> None:
    until(lambda: all("runs" in job.log(host) for host in job.processes))


def until_ended(job: AgentHosts, host: str) -> None:
    """Wait until the script of a host has ended."""
    until_all_run(job)
    until(lambda: not Path(f"/proc/{job.state(host)['script_pid']}").exists())


def reasons(job: AgentHosts) -> set[tuple[str, str]]:
    """Status and reason of all hosts whose agents have ended by themselves."""
    return {(state["status"], state["failure_reason"]) for state in job.wait().values()}


def test_a_failure_on_one_host_is_the_reason_on_all(hosts: Callable[[int], AgentHosts]) -> None:
    job = hosts(4)
    job.start(
        START
        + "signal.signal(signal.SIGTERM, lambda *_: sys.exit('ConnectionResetError: late') if host == 'algo-3' else sys.exit(0))\n"
        + "if host == 'algo-2':\n    raise ValueError('no data')\n"
        + "time.sleep(600)\n"
    )
    began = time.monotonic()
    why = "algo-2: train.py exited with code 1: ValueError: no data"
    assert reasons(job) == {("Failed", why)}
    assert time.monotonic() - began < 500, "the others slept to their end"
    for host in job.names:
        assert job.failure(host).startswith(why)
        assert job.processes[host].returncode != 0
    # On the host itself in the form of SageMaker's toolkit, too.
    assert "ExecuteUserScriptError:\nExitCode 1\n" in job.failure("algo-2")
    assert job.failure("algo-1") == why


def test_the_failed_script_and_not_the_lost_connection_to_it_is_the_reason(
    hosts: Callable[[int], AgentHosts],
) -> None:
    job = hosts(2)
    job.start(
        START
        + "if host == 'algo-2':\n    open(os.environ['UP'], 'w')\n    time.sleep(0.3)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        + "while not os.path.exists(os.environ['UP']): time.sleep(0.02)\n"
        + "raise ConnectionResetError(104, 'Connection reset by peer')\n",
        environment={"UP": str(job.folder / "up")},
    )
    ((status, why),) = reasons(job)
    assert status == "Failed"
    assert why.startswith("algo-2: train.py was killed by SIGKILL")


def test_the_scripts_own_message_reaches_all_hosts(hosts: Callable[[int], AgentHosts]) -> None:
    job = hosts(2)
    job.start(
        START
        + "if host == 'algo-2':\n    open('/opt/ml/output/failure', 'w').write('bad disk')\n    sys.exit(3)\n"
        + "time.sleep(600)\n",
        isolation="namespace",
    )
    assert reasons(job) == {("Failed", "algo-2: bad disk")}
    assert job.failure("algo-1") == "algo-2: bad disk"


def test_hosts_that_complete_early_wait_for_the_others(hosts: Callable[[int], AgentHosts]) -> None:
    job = hosts(3)
    job.start(
        START + "while host == 'algo-2' and not os.path.exists(os.environ['END']): time.sleep(0.02)\n",
        environment={"END": str(job.folder / "end")},
    )
    until_ended(job, "algo-1")
    until_ended(job, "algo-3")
    assert all(process.poll() is None for process in job.processes.values())
    (job.folder / "end").touch()
    assert reasons(job) == {("Completed", None)}


def test_a_host_that_has_completed_fails_with_the_others(hosts: Callable[[int], AgentHosts]) -> None:
    job = hosts(2)
    job.start(
        START
        + "if host == 'algo-2':\n    while not os.path.exists(os.environ['END']): time.sleep(0.02)\n    sys.exit('no more data')\n",
        environment={"END": str(job.folder / "end")},
    )
    until_ended(job, "algo-1")
    (job.folder / "end").touch()
    ((status, why),) = reasons(job)
    assert (status, why) == ("Failed", "algo-2: train.py exited with code 1")
    assert job.state("algo-1")["exit_code"] == 0
    assert job.processes["algo-1"].returncode == 1


def test_a_stop_of_one_host_stops_all(hosts: Callable[[int], AgentHosts]) -> None:
    job = hosts(3)
    job.start(FOREVER)
    until_all_run(job)
    job.signal("algo-2", signal.SIGTERM)
    states = job.wait()
    assert {state["status"] for state in states.values()} == {"Stopped"}
    assert states["algo-2"]["failure_reason"] == "stopped on request"
    assert (
        states["algo-1"]["failure_reason"]
        == states["algo-3"]["failure_reason"]
        == "algo-2: stopped on request"
    )


def test_a_time_limit_is_the_same_reason_everywhere(hosts: Callable[[int], AgentHosts]) -> None:
    job = hosts(2)
    job.start(FOREVER, max_duration=1.0)
    assert reasons(job) == {("Stopped", "max_duration of 1 s exceeded")}
    assert {job.state(host)["secondary_status"] for host in job.names} == {"MaxRuntimeExceeded"}


def test_a_script_that_ignores_the_stop_is_killed_within_seconds(
    hosts: Callable[[int], AgentHosts],
) -> None:
    job = hosts(2)
    job.start(
        START
        + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        + "if host == 'algo-1':\n    sys.exit(5)\n"
        + "time.sleep(600)\n",
        stop_grace=0.5,
    )
    assert reasons(job) == {("Failed", "algo-1: train.py exited with code 5")}
    assert "the script did not end within 0.5 s of SIGTERM and was killed" in job.state("algo-2")["notes"]


@pytest.mark.parametrize("killed", ["algo-1", "algo-2"])
def test_an_agent_that_is_killed_is_named_by_the_others(
    hosts: Callable[[int], AgentHosts], killed: str
) -> None:
    job = hosts(3)
    job.start(FOREVER)
    until_all_run(job)
    job.signal(killed, signal.SIGKILL)
    job.processes.pop(killed).wait(300)
    assert reasons(job) == {("Failed", f"{killed}: connection lost: its agent ended")}


def test_hosts_that_never_start_are_named_and_no_script_runs(hosts: Callable[[int], AgentHosts]) -> None:
    job = hosts(4)
    job.start(FOREVER, ["algo-1", "algo-2"], rendezvous_timeout=15.0)
    assert reasons(job) == {("Failed", "algo-3 and algo-4 did not report within 15 s")}
    assert job.log("algo-1") == job.log("algo-2") == ""


def test_a_host_that_starts_late_is_waited_for(hosts: Callable[[int], AgentHosts]) -> None:
    job = hosts(2)
    job.start(START, ["algo-2"])
    until(job.paths("algo-2").run.exists)
    assert job.log("algo-2") == ""
    job.start(START, ["algo-1"])
    assert reasons(job) == {("Completed", None)}


def test_a_host_that_cannot_start_is_the_reason_on_all(hosts: Callable[[int], AgentHosts]) -> None:
    job = hosts(2)
    job.start(FOREVER, ["algo-1"])
    job.start(FOREVER, ["algo-2"], python="/no/such/python", isolation="environment")
    ((status, why),) = reasons(job)
    assert status == "Failed"
    assert why.startswith("algo-2: the script could not be started: /no/such/python")


def test_a_stop_before_the_start_stops_all(hosts: Callable[[int], AgentHosts]) -> None:
    job = hosts(3)
    job.start(FOREVER, ["algo-1", "algo-2"])
    # Both wait for the third host, or are about to.
    until(
        lambda: all(
            job.paths(host).run.exists() and job.state(host).get("isolation") for host in job.processes
        )
    )
    job.signal("algo-2", signal.SIGTERM)
    states = job.wait()
    assert {state["status"] for state in states.values()} == {"Stopped"}
    assert "stopped before the script was started" in states["algo-1"]["failure_reason"]


def test_a_stop_before_the_first_host_is_there_ends_at_once(hosts: Callable[[int], AgentHosts]) -> None:
    job = hosts(2)
    job.start(FOREVER, ["algo-2"], rendezvous_timeout=600.0)
    until(lambda: job.paths("algo-2").run.exists() and bool(job.state("algo-2").get("isolation")))
    job.signal("algo-2", signal.SIGTERM)
    assert reasons(job) == {("Stopped", "stopped before the script was started")}


def test_a_port_in_use_is_named_with_what_to_do(hosts: Callable[[int], AgentHosts]) -> None:
    job = hosts(2)
    with socket.create_server(("127.0.0.1", job.port)):
        job.start(FOREVER, ["algo-1"])
        ((status, why),) = reasons(job)
    assert status == "Failed"
    assert why.startswith(f"port {job.port} of algo-1 is in use")


def test_hosts_with_different_keys_do_not_meet(hosts: Callable[[int], AgentHosts]) -> None:
    job = hosts(2)
    job.start(FOREVER, ["algo-1"], rendezvous_timeout=15.0)
    job.start(FOREVER, ["algo-2"], rendezvous_timeout=15.0, cluster_key="11" * 32)
    states = job.wait()
    assert states["algo-1"]["failure_reason"] == "algo-2 did not report within 15 s"
    assert "algo-1 could not be reached within 15 s" in states["algo-2"]["failure_reason"]


def test_a_job_that_hangs_prints_the_stacks_of_all_hosts(hosts: Callable[[int], AgentHosts]) -> None:
    job = hosts(2)
    job.start(
        START + "def waits_for_a_peer():\n    time.sleep(600)\nwaits_for_a_peer()\n", stall_timeout=15.0
    )
    assert reasons(job) == {("Failed", "no progress on any GPU or in any log for 15 s (stall_timeout)")}
    for host in job.names:
        assert "in waits_for_a_peer" in job.log(host)


def test_a_single_host_that_hangs_is_stopped_too(hosts: Callable[[int], AgentHosts]) -> None:
    job = hosts(1)
    job.start(START + "def reads_for_ever():\n    time.sleep(600)\nreads_for_ever()\n", stall_timeout=15.0)
    assert reasons(job) == {("Failed", "no progress on any GPU or in any log for 15 s (stall_timeout)")}
    assert "in reads_for_ever" in job.log("algo-1")
