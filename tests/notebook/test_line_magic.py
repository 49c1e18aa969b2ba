"""`%gpu` and `%gpu watch` in real kernels."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from gpuproof.backends.agent_job.archive import build_agent
from support.jupyter import jupyter_server, wait_until
from support.notebook_kernel import GpuMachine, NotebookKernel, notebook_kernel
from support.nvml_stub import Scenario

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, nvml_home: Path) -> GpuMachine:
    return GpuMachine(tmp_path_factory.mktemp("machine"), nvml_home)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, machine: GpuMachine) -> Generator[NotebookKernel]:
    with notebook_kernel(tmp_path_factory.mktemp("kernel"), machine.environment) as kernel:
        kernel.run("%load_ext gpuproof")
        yield kernel


def test_each_cell_is_reported_while_watch_is_on(kernel: NotebookKernel, machine: GpuMachine) -> None:
    assert "%gpu watch off ends this" in kernel.run("%gpu watch on").printed
    assert "used: 1 of 1 GPU" in kernel.run(machine.work()).shown()[0]
    assert kernel.run("1 + 1").kinds == ["execute_result"]
    assert kernel.run("%gpu watch off").shown() == []
    assert kernel.run("import time; time.sleep(1.2)").kinds == []


def test_it_shows_the_gpus_and_that_this_notebook_holds_memory(
    kernel: NotebookKernel, machine: GpuMachine
) -> None:
    kernel.run(f"import os\nwith open({str(machine.pid_file)!r}, 'w') as file: file.write(str(os.getpid()))")
    (text,) = kernel.run("%gpu").shown()
    kernel.run(f"os.unlink({str(machine.pid_file)!r})")
    assert "0 NVIDIA A10G          87%  3.9 GiB of 22.5 GiB" in text
    assert f"this notebook        0  3.9 GiB  {kernel.pid:7}" in text


def test_a_process_that_no_kernel_started_is_named_by_its_command(
    kernel: NotebookKernel, machine: GpuMachine
) -> None:
    command = [sys.executable, "-c", "print(flush=True); input()", "train.py"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()  # in /proc, it has its command only from its first instructions on
        machine.pid_file.write_text(str(worker.pid))
        (text,) = kernel.run("%gpu").shown()
        machine.pid_file.unlink()
        worker.kill()
    assert "python -c print(flush=True); input() train.py" in text


def test_the_notebooks_of_a_jupyter_server_are_named(tmp_path: Path, nvml_home: Path) -> None:
    with jupyter_server(tmp_path) as server:
        session = server.request(
            "POST",
            "api/sessions",
            {
                "path": "course/week 1.ipynb",
                "name": "week 1",
                "type": "notebook",
                "kernel": {"name": "python3"},
            },
        )
        kernel_id = session["kernel"]["id"]
        file = f"kernel-{kernel_id}.json"
        wait_until(lambda: _process_with(file) is not None)
        pid = _process_with(file)
        assert pid is not None
        scenario = (
            Scenario(tmp_path / "gpus.txt").gpu(0).at(0, util=50, memory_mib=9000, processes={pid: 8000})
        )
        environment = {**scenario.write().environment(nvml_home), "JUPYTER_RUNTIME_DIR": str(server.runtime)}
        # The notebook is renamed: the server knows, the kernel's variables do not.
        server.request("PATCH", f"api/sessions/{session['id']}", {"path": "course/week 2.ipynb"})
        with notebook_kernel(tmp_path / "other", environment) as kernel:
            kernel.run("%load_ext gpuproof")
            kernel.run(f"import os; os.environ['JUPYTER_RUNTIME_DIR'] = {str(server.runtime)!r}")
            (text,) = kernel.run("%gpu").shown()
    assert "course/week 2.ipynb    0  7.8 GiB" in text


def test_without_a_gpu_there_is_one_line(tmp_path: Path) -> None:
    with notebook_kernel(tmp_path, {}) as kernel:
        kernel.run("%load_ext gpuproof")
        sentence = "the NVIDIA driver is not installed"
        (cell,) = kernel.run("%%gpu\nimport time; time.sleep(1)").shown()
        assert cell == f"GPUproof: no usable GPU: {sentence}."
        (state,) = kernel.run("%gpu").shown()
        assert state.startswith(f"GPUproof: this machine has no usable GPU: {sentence}")
        assert kernel.run("%gpu watch on").printed.startswith(f"GPUproof has nothing to watch: {sentence}")
        assert kernel.run("time.sleep(1.2)").kinds == []


def test_a_container_that_hides_processes_says_so(tmp_path: Path, nvml_home: Path) -> None:
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0).at(0, util=50, memory_mib=9000)
    with notebook_kernel(tmp_path / "kernel", scenario.write().environment(nvml_home)) as kernel:
        kernel.run("%load_ext gpuproof")
        (text,) = kernel.run("%gpu").shown()
    assert "The driver lists no process for this memory, as in a container" in text


def test_no_process_stays_when_a_kernel_restarts(tmp_path: Path, nvml_home: Path) -> None:
    machine = GpuMachine(tmp_path, nvml_home)
    with notebook_kernel(tmp_path / "kernel", machine.environment) as kernel:
        kernel.run("%load_ext gpuproof\n%gpu watch on")
        monitors = _monitors_of(machine)
        assert len(monitors) == 1
        kernel.manager.restart_kernel(now=True)
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in monitors))


def test_a_process_that_the_kernel_has_forked_keeps_no_monitor(tmp_path: Path, nvml_home: Path) -> None:
    machine = GpuMachine(tmp_path, nvml_home)
    with notebook_kernel(tmp_path / "kernel", machine.environment) as kernel:
        kernel.run("%load_ext gpuproof\n%gpu watch on")
        monitors = _monitors_of(machine)
        kernel.run(
            "import os, time\nif not (child := os.fork()):\n    os.setsid(); time.sleep(600); os._exit(0)"
        )
        child = int(kernel.run("child").result or 0)
        try:
            os.kill(kernel.pid, signal.SIGKILL)
            wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in monitors))
        finally:
            os.kill(child, signal.SIGKILL)


def test_the_extension_can_be_unloaded_and_loaded_again(tmp_path: Path, nvml_home: Path) -> None:
    machine = GpuMachine(tmp_path, nvml_home)
    with notebook_kernel(tmp_path / "kernel", machine.environment) as kernel:
        kernel.run("%load_ext gpuproof\n%gpu watch on")
        kernel.run("%unload_ext gpuproof")
        assert kernel.run("import time; time.sleep(1.2)").kinds == []
        wait_until(lambda: not _monitors_of(machine))
        kernel.run("%load_ext gpuproof\n%load_ext gpuproof\n%reload_ext gpuproof")
        assert len(kernel.run(f"%%gpu\n{machine.work()}").shown()) == 1


def test_the_agents_file_brings_the_extension_to_an_image_without_gpuproof(
    tmp_path: Path, nvml_home: Path
) -> None:
    agent = tmp_path / "gpuproof-agent.pyz"
    build_agent(agent)
    machine = GpuMachine(tmp_path, nvml_home)
    with notebook_kernel(tmp_path / "kernel", machine.environment) as kernel:
        # As if GPUproof was not installed.
        kernel.run(
            "import os, sys\n"
            "sys.path[:] = [path for path in sys.path if not os.path.exists(f'{path}/gpuproof/__init__.py')]\n"
            f"sys.path.insert(0, {str(agent)!r})"
        )
        kernel.run("%load_ext gpuproof.notebook")
        assert "used: 1 of 1 GPU" in kernel.run(f"%%gpu\n{machine.work()}").shown()[0]
        origin = "sys.modules['gpuproof.notebook.extension'].__spec__.origin.startswith(sys.path[0])"
        assert kernel.run(origin).result == "True"


def _process_with(word: str) -> int | None:
    """A process that has a word at the end of an argument."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(argument.endswith(word) for argument in words):
            return int(folder.name)
    return None


def _monitors_of(machine: GpuMachine) -> list[int]:
    """The monitor processes that read the machine's GPUs."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue
        if b"gpuproof.watch.main" in command and os.fsencode(machine.folder) in environment:
            found.append(int(folder.name))
    return found
