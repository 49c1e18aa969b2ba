"""`--idle-watch` of the agent's file, next to a real Jupyter server with a real kernel and the stub NVML."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.idle.jupyter_activity import server_at
from gpuproof.agent.idle.watch import shell_is_open
from support.jupyter import TOKEN, Server, jupyter_server, wait_until
from support.nvml_stub import Scenario, build_library

pytestmark = [pytest.mark.slow]

MANY_LOOKS = 25
"""Each look is a tenth of the time after which an idle machine would be reported."""
WAITS = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.02)"

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with jupyter_server(tmp_path_factory.mktemp("jupyter")) as server:
        yield server


@pytest.fixture
def kernel(jupyter: Server) -> Iterator[str]:
    started = jupyter.start_kernel()
    yield started
    jupyter.request("DELETE", f"api/kernels/{started}")


@pytest.fixture
def start(agent_file: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts `--idle-watch`, which creates the file `ended` with the reason."""
    running: list[subprocess.Popen[str]] = []

    def watch(*options: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        token = tmp_path / "token"
        token.write_text(TOKEN)
        command = [sys.executable, str(agent_file), "--idle-watch", "--idle-timeout", "1"]
        command += ["--token-file", str(token), "--state", str(tmp_path / "state.json"), *options]
        end = [sys.executable, "-c", "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"]
        process = subprocess.Popen(
            [*command, "--", *end, str(tmp_path / "ended"), "{reason}"],
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        running.append(process)
        return process

    yield watch
    for process in running:
        process.kill()
        process.communicate()


def state(folder: Path) -> dict[str, Any]:
    path = folder / "state.json"
    return json.loads(path.read_text()) if path.exists() else {"looks": 0}


def see_many_looks(folder: Path) -> None:
    """Wait until it has looked more often than in the time after which an idle machine is reported, twice."""
    before = state(folder)["looks"]
    wait_until(lambda: state(folder)["looks"] >= before + MANY_LOOKS)


def test_a_busy_kernel_keeps_the_machine_and_its_end_does_not(
    jupyter: Server, kernel: str, start: Start, tmp_path: Path
) -> None:
    jupyter.execute(kernel, WAITS.format(str(tmp_path / "go")))
    wait_until(lambda: jupyter.kernel_state(kernel) == "busy")
    process = start("--jupyter-url", jupyter.url)
    see_many_looks(tmp_path)
    assert not (tmp_path / "ended").exists()
    (tmp_path / "go").touch()
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert (tmp_path / "ended").read_text() == "idle for 1.0 s: no kernel was busy and no GPU worked"
    assert TOKEN not in output


def test_a_working_gpu_keeps_the_machine_although_no_kernel_is_busy(
    jupyter: Server, start: Start, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    library = build_library(tmp_path_factory.mktemp("stub"))
    gpu = Scenario(tmp_path / "gpus.txt").gpu(0).at(0, util=60, memory_mib=4000).at(10, memory_mib=4000)
    process = start("--jupyter-url", jupyter.url, environment=gpu.now(0).environment(library))
    see_many_looks(tmp_path)
    assert not (tmp_path / "ended").exists()
    gpu.now(10)  # the process still holds memory, and computes nothing
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output


def test_gpus_that_fail_and_a_server_that_is_gone_do_not_keep_the_machine(
    start: Start, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    library = build_library(tmp_path_factory.mktemp("stub"))
    broken = Scenario(tmp_path / "gpus.txt").gpu(0).fail("nvmlInit", 9).now(0)
    process = start("--jupyter-url", "http://127.0.0.1:9/", environment=broken.environment(library))
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert (tmp_path / "ended").read_text() == (
        "idle for 2.0 s: Jupyter did not answer and the GPUs could not be read"
    )


def test_a_wrong_token_and_a_missing_server_are_no_activity(jupyter: Server) -> None:
    assert server_at(jupyter.url, "wrong").activity() is None
    assert not server_at(jupyter.url, "wrong").answers()
    assert server_at("http://127.0.0.1:9/").activity() is None
    assert server_at(jupyter.url, TOKEN).answers()


def test_a_terminal_and_a_kernel_are_seen(jupyter: Server, kernel: str) -> None:
    terminal = jupyter.request("POST", "api/terminals")["name"]
    seen = server_at(jupyter.url, TOKEN).activity()
    assert seen is not None
    assert {name for name, _ in seen.marks} == {f"kernel {kernel}", f"terminal {terminal}"}
    jupyter.request("DELETE", f"api/terminals/{terminal}")


def test_a_command_is_required(agent_file: Path) -> None:
    command = [sys.executable, str(agent_file), "--idle-watch", "--idle-timeout", "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "a command after --" in done.stderr


def proc_entry(proc: Path, pid: int, name: str, parent: int) -> None:
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} {pid} {pid} 0 -1")


def test_a_session_with_a_shell_is_open_and_one_that_forwards_a_port_is_not(tmp_path: Path) -> None:
    proc_entry(tmp_path, 1, "systemd", 0)
    proc_entry(tmp_path, 50, "ssm-session-wor", 1)
    proc_entry(tmp_path, 60, "python (3) x", 1)
    assert not shell_is_open(tmp_path)
    proc_entry(tmp_path, 51, "sh", 50)
    assert shell_is_open(tmp_path)
