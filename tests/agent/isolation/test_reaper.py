"""The reaper with real processes: what it starts, what it hides, what it ends."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuproof.agent.isolation.opt_ml_mounts import enter_private_contract
from gpuproof.agent.isolation.reaper import Launch, Reaper, ReaperLost
from gpuproof.agent.job import Mount
from gpuproof.util.process_tree import descendants
from support.cli_sandbox import gone, nothing_new_in_opt, until

NAMESPACES = subprocess.run(["unshare", "--user", "--mount", "true"], capture_output=True).returncode == 0
needs_namespaces = pytest.mark.skipif(not NAMESPACES, reason="this host allows no user namespaces")


def python(code: str, *arguments: str, folder: str = "/") -> Launch:
    return Launch([sys.executable, "-c", code, *arguments], dict(os.environ), folder)


def read_all(descriptor: int) -> bytes:
    parts: list[bytes] = []
    while part := os.read(descriptor, 65536):
        parts.append(part)
    return b"".join(parts)


@pytest.fixture
def start() -> Iterator[Callable[..., Reaper]]:
    reapers: list[Reaper] = []

    def begin(ml: Path | None = None, mounts: tuple[Mount, ...] = ()) -> Reaper:
        reapers.append(Reaper.start(ml, mounts))
        return reapers[-1]

    yield begin
    for reaper in reapers:
        reaper.close()


@pytest.fixture
def users_folder() -> Iterator[Path]:
    """A folder of the user `nobody`, who has no access to pytest's own folders."""
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, 65534, 65534)
        yield Path(folder)


def test_the_exit_code_comes_back(start: Callable[..., Reaper]) -> None:
    reaper = start()
    assert reaper.message() == {"entered": True}
    reaper.launch(python("raise SystemExit(7)"))
    assert "started" in reaper.message()
    assert reaper.message() == {"ended": 7}


def test_a_signal_comes_back_as_a_negative_code(start: Callable[..., Reaper]) -> None:
    reaper = start()
    reaper.message()
    reaper.launch(python("import time; print('ready', flush=True); time.sleep(600)"))
    reaper.message()
    assert os.read(reaper.output, 5) == b"ready"
    reaper.signal(signal.SIGTERM)
    assert reaper.message() == {"ended": -signal.SIGTERM}


def test_standard_output_and_error_come_through_one_pipe(start: Callable[..., Reaper]) -> None:
    reaper = start()
    reaper.message()
    reaper.launch(python("import os; os.write(1, b'a\\xff'); os.write(2, b'b'); print(os.read(0, 1))"))
    reaper.message()
    assert reaper.message() == {"ended": 0}
    assert read_all(reaper.output) == b"a\xffbb''\n"


def test_a_program_that_is_not_there_is_refused_with_the_reason(start: Callable[..., Reaper]) -> None:
    reaper = start()
    reaper.message()
    reaper.launch(Launch(["/no/such/python"], {}, "/"))
    assert reaper.message() == {"refused": "/no/such/python: No such file or directory"}


def test_what_the_script_leaves_running_ends_with_it(start: Callable[..., Reaper]) -> None:
    reaper = start()
    reaper.message()
    # A proper daemon: a session of its own, and its parent has ended. The script ends once the daemon has printed
    # its process id.
    daemon = (
        "import os, time\nreads, writes = os.pipe()\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True)\n        os.write(writes, b'x')\n        time.sleep(600)\n"
        "    os._exit(0)\nos.wait()\nos.read(reads, 1)"
    )
    reaper.launch(python(daemon))
    reaper.message()
    pid = int(os.read(reaper.output, 100))
    assert reaper.message() == {"ended": 0}
    assert gone(pid)


@pytest.mark.parametrize(
    "killed",
    [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)],
    ids=["agent", "backstop", "reaper", "agent-backstop", "agent-reaper", "backstop-reaper"],
)
def test_when_agent_backstop_or_reaper_or_two_of_them_are_killed_everything_below_dies(
    killed: tuple[int, ...],
) -> None:
    agent = """
import os, sys, time
from gpuproof.agent.isolation.reaper import Reaper, Launch
from gpuproof.util.process_tree import adopt_orphans, end_descendants
adopt_orphans()
reaper = Reaper.start(None, ())
reaper.message()
script = "import os, time\\nos.setsid()\\nif os.fork():\\n    os._exit(0) if os.fork() else time.sleep(600)\\ntime.sleep(600)"
reaper.launch(Launch([sys.executable, "-c", "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', %r]); time.sleep(600)" % script], dict(os.environ), "/"))
script = reaper.message()["started"]
print(reaper.pid, reaper.script_parent, script, flush=True)
try:
    reaper.message()
except Exception:
    pass
end_descendants()
"""
    process = subprocess.Popen([sys.executable, "-c", agent], stdout=subprocess.PIPE)
    assert process.stdout is not None
    guards = [process.pid, *map(int, process.stdout.readline().split())]
    below = until(lambda: len(found := descendants(process.pid)) >= 5 and found, "the whole tree")
    for number in killed:
        os.kill(guards[number], signal.SIGKILL)
    if killed == (1,):
        # The agent has lost nothing: the run goes on.
        assert not gone(guards[3], 0.2)
        process.kill()
    process.wait()
    process.stdout.close()
    assert [pid for pid in below if not gone(pid)] == []


def test_when_the_reaper_is_killed_the_script_dies_and_the_agent_knows(start: Callable[..., Reaper]) -> None:
    reaper = start()
    reaper.message()
    reaper.launch(python("import time; time.sleep(600)"))
    script = reaper.message()["started"]
    os.kill(reaper.script_parent, signal.SIGKILL)
    with pytest.raises(ReaperLost):
        reaper.message()
    assert gone(script)


def test_the_script_gets_no_file_of_ours(start: Callable[..., Reaper], tmp_path: Path) -> None:
    held = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    reaper = start()
    reaper.message()
    reaper.launch(
        python(
            "import os; print(sorted(os.readlink(f'/proc/self/fd/{n}') for n in range(3, 50) if os.path.exists(f'/proc/self/fd/{n}')))"
        )
    )
    reaper.message()
    reaper.message()
    assert str(tmp_path / "lock") not in read_all(reaper.output).decode()
    os.close(held)


@needs_namespaces
# Others look at the host's /opt, too, and proot makes a folder there.
@pytest.mark.xdist_group("opt")
def test_the_script_sees_the_runs_folder_as_opt_ml_and_the_host_does_not(
    start: Callable[..., Reaper], tmp_path: Path
) -> None:
    before = os.listdir("/opt")
    (tmp_path / "ml" / "model").mkdir(parents=True)
    reaper = start(tmp_path / "ml")
    assert reaper.message() == {"entered": True}
    reaper.launch(
        python(
            "open('/opt/ml/model/weights', 'w').write('w'); import json, os; print(json.dumps(os.listdir('/opt')))"
        )
    )
    reaper.message()
    assert reaper.message() == {"ended": 0}
    assert (tmp_path / "ml" / "model" / "weights").read_text() == "w"
    assert set(json.loads(read_all(reaper.output))) == {*before, "ml"}
    nothing_new_in_opt(before)


@needs_namespaces
@pytest.mark.parametrize("name", ["data", "with space", "qu'o\"te", "new\nline", "ünï"])
def test_an_input_is_mounted_read_only_and_not_copied(
    start: Callable[..., Reaper], tmp_path: Path, name: str
) -> None:
    source = tmp_path / name
    source.mkdir()
    (source / "rows.csv").write_text("1,2")
    (tmp_path / "ml").mkdir()
    reaper = start(tmp_path / "ml", (Mount(str(source), "input/data/training"),))
    assert reaper.message() == {"entered": True}
    reaper.launch(
        python(
            "import os, errno\np = '/opt/ml/input/data/training/'\nprint(open(p + 'rows.csv').read())\n"
            "try:\n    open(p + 'new', 'w')\nexcept OSError as e:\n    print(errno.errorcode[e.errno])"
        )
    )
    reaper.message()
    assert reaper.message() == {"ended": 0}
    assert read_all(reaper.output) == b"1,2\nEROFS\n"
    assert list((tmp_path / "ml" / "input" / "data" / "training").iterdir()) == []


@needs_namespaces
def test_a_single_file_is_mounted_under_its_name(start: Callable[..., Reaper], tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("1,2")
    (tmp_path / "ml").mkdir()
    reaper = start(tmp_path / "ml", (Mount(str(tmp_path / "rows.csv"), "input/data/training/rows.csv"),))
    assert reaper.message() == {"entered": True}
    reaper.launch(python("print(open('/opt/ml/input/data/training/rows.csv').read())"))
    reaper.message()
    reaper.message()
    assert read_all(reaper.output) == b"1,2\n"


@needs_namespaces
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a plain user")
def test_a_plain_user_gets_a_private_opt_ml_too_and_stays_who_they_are(users_folder: Path) -> None:
    ml = users_folder / "ml"
    ml.mkdir()
    os.chown(ml, 65534, 65534)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            # After a change of user without exec, /proc/self is not accessible: PR_SET_DUMPABLE restores access.
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
            enter_private_contract(ml, [])
            Path("/opt/ml/who").write_text(str(os.getuid()))
            os.write(write, b"fine")
        except BaseException as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    assert read_all(read) == b"fine"
    os.waitpid(pid, 0)
    assert (ml / "who").read_text() == "65534"


@needs_namespaces
def test_a_refused_mount_is_named(start: Callable[..., Reaper], tmp_path: Path) -> None:
    (tmp_path / "ml").mkdir()
    reaper = start(tmp_path / "ml", (Mount("/no/such/folder", "input/data/training"),))
    answer = reaper.message()
    assert answer["entered"] is False
    assert "/no/such/folder" in answer["reason"]


# On a host whose empty /opt/ml is removed after the process has entered its own mount namespace.
_REMOVED_MEANWHILE = """
import ctypes, os, sys
from pathlib import Path
from gpuproof.agent.isolation.opt_ml_mounts import enter_private_contract

assert ctypes.CDLL(None).mount(b"tmpfs", b"/opt", b"tmpfs", 0, None) == 0
os.mkdir("/opt/ml")
entered, removed = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(removed[1])
    enter_private_contract(Path(sys.argv[1]), ())
    os.write(entered[1], b".")
    os.read(removed[0], 1)
    print(os.listdir("/opt/ml"), flush=True)
    os._exit(0)
os.close(entered[1])
os.read(entered[0], 1)
os.rmdir("/opt/ml")
os.close(removed[1])
os.wait()
"""


@needs_namespaces
def test_removing_the_hosts_empty_opt_ml_does_not_affect_a_run(tmp_path: Path) -> None:
    (tmp_path / "ml" / "model").mkdir(parents=True)
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    done = subprocess.run(
        [*unshare, sys.executable, "-c", _REMOVED_MEANWHILE, str(tmp_path / "ml")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "['model']\n", done.stderr
