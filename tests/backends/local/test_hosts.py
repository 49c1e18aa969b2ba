"""A job with several hosts on this machine, for real: networks, folders, results, failures, and that nothing remains."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.state import read_state
from gpuproof.backends.base import Live, Output
from gpuproof.backends.local import backend as backend_module
from gpuproof.backends.local.backend import LocalBackend, LocalRunStore
from gpuproof.backends.local.run import LocalRun
from gpuproof.backends.local.run_folders import RunFolders, agent_alive
from gpuproof.backends.progress import SilentProgress
from gpuproof.errors import UsageError
from gpuproof.jobs.models.script_jobs import ProcessingJob, TrainingJob
from support.cli_sandbox import until
from support.nvml_stub import Scenario, build_library

pytestmark = pytest.mark.slow
ALLOWED = (
    subprocess.run(["unshare", "--user", "--net", "--mount", "true"], capture_output=True).returncode == 0
)
needs_namespaces = pytest.mark.skipif(not ALLOWED, reason="this host allows no network namespaces")
SECONDS = 300

Script = Callable[[str], Path]

# Talks from algo-2 to algo-1 at a port that both have, and writes the same file on both.
TALKS = """
import os, pathlib, socket, time
host, model = os.environ["SM_CURRENT_HOST"], pathlib.Path("/opt/ml/model")
assert list(model.iterdir()) == []
server = socket.create_server(("0.0.0.0", 7000))
(model / "both").write_text(host)
(model / host).write_text(host)
pathlib.Path("/opt/ml/checkpoints", host).touch()
if host == "algo-1":
    print("received", server.accept()[0].recv(100).decode())
else:
    for _ in range(1000):
        try:
            connection = socket.create_connection(("algo-1", 7000))
            break
        except OSError:
            time.sleep(0.05)
    connection.sendall(f"hello from {socket.gethostname()}".encode())
    connection.close()
    print("sent")
assert sorted(os.listdir(model)) == sorted(["both", host])
"""
# Waits for ever, and writes its process id and that of a process of its own, in a session of its own, where the test finds it.
WAITS = """
import os, subprocess, sys, time
host = os.environ["SM_CURRENT_HOST"]
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
with open(f"/opt/ml/checkpoints/{host}.part", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename(f"/opt/ml/checkpoints/{host}.part", f"/opt/ml/checkpoints/{host}")
print("waiting", flush=True)
"""


@pytest.fixture
def backend(store: RunFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalBackend:
    monkeypatch.setattr(backend_module, "cache_dir", lambda: tmp_path / "cache")
    return LocalBackend(LocalRunStore(store.root))


def started(backend: LocalBackend, job: TrainingJob | ProcessingJob) -> LocalRun:
    return next(backend.submit(backend.plan(job), SilentProgress()))


def job(script: Path, **keys: Any) -> TrainingJob:
    return TrainingJob(
        **{"entry_point": script.name, "source_dir": str(script.parent), "instance_count": 2, **keys}
    )


def waiting(backend: LocalBackend, script: Script, then: str = "time.sleep(1000)", **keys: Any) -> LocalRun:
    """A run whose scripts are all running."""
    run = started(backend, job(script(WAITS + then), **keys))
    until(
        lambda: sorted(path.name for path in run.paths.checkpoints.iterdir()) == list(run.record.hosts),
        "the start of all scripts",
    )
    return run


def alive(run: LocalRun) -> list[int]:
    """The scripts' processes that are still running."""
    processes = [int(pid) for path in run.paths.checkpoints.iterdir() for pid in path.read_text().split()]
    return [pid for pid in processes if Path(f"/proc/{pid}").exists()]


def members(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as tar:
        return {name: tar.extractfile(name).read().decode() for name in tar.getnames()}  # type: ignore[union-attr]


def output_of(run: LocalRun, **options: Any) -> list[str]:
    sink = io.BytesIO()
    run.write_log(sink, **options)
    return sink.getvalue().decode().splitlines()


@needs_namespaces
def test_two_hosts_talk_and_their_results_are_merged(
    backend: LocalBackend, script: Script, tmp_path: Path
) -> None:
    run = started(backend, job(script(TALKS), output=str(tmp_path / "models")))
    events = list(run.follow(live=True))
    record = run.record
    assert (record.status, record.exit_code, record.failure_reason) == ("Completed", 0, None)
    assert record.hosts == ("algo-1", "algo-2")
    assert {host: one["status"] for host, one in record.document["hosts"].items()} == dict.fromkeys(
        record.hosts, "Completed"
    )

    shown = b"".join(event.content for event in events if isinstance(event, Output)).decode().splitlines()
    assert sorted(shown) == ["algo-1 | received hello from algo-2", "algo-2 | sent"]
    assert sorted(output_of(run)) == sorted(shown)
    assert output_of(run, host="algo-2") == ["sent"]
    with pytest.raises(UsageError, match="has no host algo-3: its hosts are algo-1 to algo-2"):
        output_of(run, host="algo-3")
    assert all(event.sample["hosts"] <= 2 for event in events if isinstance(event, Live))

    assert members(run.paths.model_archive) == {"both": "algo-1", "algo-1": "algo-1", "algo-2": "algo-2"}
    delivered = tmp_path / "models" / run.id / "output" / "model.tar.gz"
    assert delivered.read_bytes() == run.paths.model_archive.read_bytes()
    assert sorted(path.name for path in run.paths.checkpoints.iterdir()) == ["algo-1", "algo-2"]
    assert record.document["artifacts"]["model.tar.gz"]["files"] == 3
    # One note for all hosts, or none: here, nothing is wrong.
    assert record.notes == ()

    verdict = run.verdict
    assert verdict is not None
    assert [host["host"] for host in verdict["hosts"]] == ["algo-1", "algo-2"]
    pulled = run.pull(tmp_path / "pulled")
    assert [path.name for path in pulled] == ["model.tar.gz", "verdict.json", "algo-1.log", "algo-2.log"]

    for host in record.hosts:
        paths = run.paths.host(host)
        assert paths.job.stat().st_mode & 0o777 == 0o600
        assert not any(paths.root.glob(".reserve"))
    until(lambda: not agent_alive(run.paths), "the end of the supervisor")


def test_the_first_failure_names_its_host_and_stops_the_others(backend: LocalBackend, script: Script) -> None:
    run = waiting(
        backend,
        script,
        then="""
if host == "algo-2":
    raise ValueError("no data")
time.sleep(1000)""",
    )
    began = time.monotonic()
    record = run.wait()
    assert time.monotonic() - began < SECONDS
    assert (record.status, record.exit_code) == ("Failed", 1)
    assert record.failure_reason == "algo-2: train.py exited with code 1: ValueError: no data"
    assert record.document["failed_host"] == "algo-2"
    assert alive(run) == []


def test_a_stop_request_reaches_all_hosts(backend: LocalBackend, script: Script) -> None:
    run = waiting(backend, script)
    run.stop()
    record = run.wait()
    assert (record.status, record.failure_reason) == ("Stopped", "stopped on request")
    assert {host["status"] for host in record.document["hosts"].values()} == {"Stopped"}
    assert alive(run) == []


def test_a_stop_at_once_kills_what_ignores_sigterm(backend: LocalBackend, script: Script) -> None:
    run = waiting(
        backend, script, "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1000)"
    )
    run.stop(at_once=True)
    assert run.wait().status == "Stopped"
    assert alive(run) == []


def test_a_stop_before_the_scripts_have_started_is_not_lost(backend: LocalBackend, script: Script) -> None:
    run = started(backend, job(script("import time\ntime.sleep(1000)")))
    run.stop()
    assert run.wait().status == "Stopped"


@pytest.mark.parametrize("victims", [["supervisor"], ["algo-1"], ["algo-2"], ["supervisor", "algo-1"]])
def test_nothing_survives_when_processes_of_the_run_are_killed(
    backend: LocalBackend, script: Script, victims: list[str]
) -> None:
    run = waiting(backend, script)
    document = run.record.document
    agents = {host: state["agent_pid"] for host, state in document["hosts"].items()}
    for victim in victims:
        os.kill(document["agent_pid"] if victim == "supervisor" else agents[victim], signal.SIGKILL)
    record = run.wait()
    assert record.status == "Failed"
    until(lambda: alive(run) == [], "the end of all processes")
    if "supervisor" in victims:
        assert record.failure_reason == "the agent was killed, and the script with it"
    else:
        assert record.failure_reason == f"the agent of {victims[0]} was killed, and the script with it"


def test_the_gpus_of_this_machine_are_divided_among_the_hosts(
    backend: LocalBackend, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario(tmp_path / "gpus.txt").gpus(4).now(0)
    for name, value in scenario.environment(build_library(tmp_path)).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("gpuproof.backends.local.plan.count_gpus", lambda: 4)
    path = script("import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['SM_NUM_GPUS'])")
    plan = backend.plan(job(path))
    assert ("hosts", "2 on this machine: algo-1 (GPU 0, 1), algo-2 (GPU 2, 3)") in list(plan.describe())
    run = next(backend.submit(plan, SilentProgress()))
    assert run.wait().status == "Completed"
    assert sorted(output_of(run)) == ["algo-1 | 0,1 2", "algo-2 | 2,3 2"]
    verdict = run.verdict
    assert verdict is not None
    own = [
        [gpu["index"] for gpu in verdict["gpus"] if gpu["host"] == host and not gpu["hidden"]]
        for host in ("algo-1", "algo-2")
    ]
    assert own == [[0, 1], [2, 3]]


def test_without_namespaces_hosts_share_one_network_and_have_their_own_folders(
    store: RunFolders, tmp_path: Path, backend: LocalBackend, script: Script
) -> None:
    from gpuproof.backends.base import PlanOptions

    path = script("""
import os, socket
open(os.path.join(os.environ["SM_MODEL_DIR"], os.environ["SM_CURRENT_HOST"]), "w")
try:
    print("algo-2 is", socket.gethostbyname("algo-2"))
except OSError:
    print("algo-2 is unknown")
""")
    plan = backend.plan(job(path), PlanOptions(flags={"isolation": "environment"}))
    run = next(backend.submit(plan, SilentProgress()))
    record = run.wait()
    assert record.status == "Completed", record.failure_reason
    assert set(members(run.paths.model_archive)) == {"algo-1", "algo-2"}
    assert any("launchers connect them at 127.0.0.1" in note for note in record.notes)
    assert any("the names of the hosts do not resolve" in note for note in record.notes)
    assert sorted(output_of(run)) == ["algo-1 | algo-2 is unknown", "algo-2 | algo-2 is unknown"]
    jobs = [read_state(run.paths.host(host).job) for host in record.hosts]
    assert [job["shared_network"] for job in jobs if job] == [True, True]


def test_outputs_of_a_processing_job_are_merged(
    backend: LocalBackend, script: Script, tmp_path: Path
) -> None:
    path = script("""
import json, os, pathlib
host = json.load(open("/opt/ml/config/resourceconfig.json"))["current_host"]
for folder in ("sent", "kept"):
    output = pathlib.Path("/opt/ml/processing", folder)
    (output / host).write_text(host)
    (output / "both").write_text(host)
""")
    outputs = {"/opt/ml/processing/sent": str(tmp_path / "sent"), "/opt/ml/processing/kept": None}
    run = started(
        backend,
        ProcessingJob(entry_point=path.name, source_dir=str(path.parent), instance_count=2, outputs=outputs),
    )
    assert run.wait().status == "Completed"
    run.pull(tmp_path / "pulled")
    for folder in (tmp_path / "sent", tmp_path / "pulled" / "kept"):
        found = {path.name: path.read_text() for path in folder.iterdir()}
        assert found == {"both": "algo-1", "algo-1": "algo-1", "algo-2": "algo-2"}


def test_a_model_that_one_host_saves_is_no_reason_for_a_note(backend: LocalBackend, script: Script) -> None:
    saves = started(
        backend,
        job(script("import os\nif os.environ['SM_CURRENT_HOST'] == 'algo-2': open('/opt/ml/model/w', 'w')")),
    )
    assert saves.wait().notes == ()
    saves_nothing = started(backend, job(script("")))
    assert saves_nothing.wait().notes == ("/opt/ml/model is empty: this run saved no model",)


def test_the_secret_of_the_agents_is_not_shown(backend: LocalBackend, script: Script) -> None:
    plan = backend.plan(job(script("")))
    assert plan.cluster_key
    assert plan.cluster_key not in json.dumps(plan.document())
