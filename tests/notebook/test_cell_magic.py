"""`%%gpu` in a real kernel: the cell runs as it would without it, and a report follows its output."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from support.aws_loopback import MetadataService
from support.jupyter import wait_until
from support.notebook_kernel import GpuMachine, NotebookKernel, notebook_kernel

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, nvml_home: Path) -> GpuMachine:
    return GpuMachine(tmp_path_factory.mktemp("machine"), nvml_home)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, machine: GpuMachine) -> Generator[NotebookKernel]:
    with notebook_kernel(tmp_path_factory.mktemp("kernel"), machine.environment) as kernel:
        kernel.run("%load_ext gpuproof")
        yield kernel


def test_the_report_says_what_the_gpu_did(kernel: NotebookKernel, machine: GpuMachine) -> None:
    cell = kernel.run(f"%%gpu\n{machine.work()}")
    (text,) = cell.shown()
    assert text.startswith("verdict    used: 1 of 1 GPU worked, 87% busy")
    (page,) = cell.shown("text/html")
    assert "<svg" in page
    assert 'aria-label="GPU 0 A10G: mean 87%, p90 87%, peak 3.9 of 22.5 GiB' in page
    assert "<script" not in page


def test_a_gpu_that_did_nothing_is_reported_as_well(kernel: NotebookKernel, machine: GpuMachine) -> None:
    (text,) = kernel.run(f"%%gpu\n{machine.wait()}").shown()
    assert text.startswith("verdict    cpu-only:")


def test_a_cell_is_sampled_while_it_holds_the_gil(kernel: NotebookKernel, machine: GpuMachine) -> None:
    # ctypes.PyDLL keeps the GIL during the call, which lasts until the GPU was read often enough.
    code = f"""%%gpu
import ctypes, os
with open({str(machine.pid_file)!r}, "w") as file:
    file.write(str(os.getpid()))
enough = os.path.getsize({str(machine.looks)!r}) + 6
ctypes.PyDLL(None).system(f"until [ $(stat -c %s {machine.looks}) -ge {{enough}} ]; do sleep 0.1; done".encode())
os.unlink({str(machine.pid_file)!r})"""
    (text,) = kernel.run(code).shown()
    assert text.startswith("verdict    used: 1 of 1 GPU worked")


def test_result_output_and_variables_are_those_of_the_cell(kernel: NotebookKernel) -> None:
    cell = kernel.run(
        "%%gpu\nfrom IPython.display import HTML\nprint('one')\ndisplay(HTML('<i>two</i>'))\nsix = 6\nsix * 7"
    )
    assert cell.kinds == ["stream", "display_data", "execute_result", "display_data"]
    assert cell.result == "42"
    assert kernel.run("six, _").result == "(6, 42)"


def test_the_history_has_the_cell_as_it_was_written(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%gpu\nanswer = 42")
    count = cell.reply["execution_count"]
    assert kernel.run(f"_i{count}").result == r"'%%gpu\nanswer = 42'"
    assert "%%gpu\nanswer = 42" in kernel.run(f"%history {count}").printed


def test_an_exception_is_shown_once_with_its_line_and_the_report_below(
    kernel: NotebookKernel, machine: GpuMachine
) -> None:
    cell = kernel.run(f"%%gpu\n{machine.work()}\nprint('before')\n1 / 0")
    assert cell.kinds == ["stream", "error", "display_data"]
    assert cell.reply["ename"] == "ZeroDivisionError"
    line = machine.work().count("\n") + 4
    assert f"line {line}" in "".join(cell.outputs[1]["traceback"]).replace("\x1b[39m\x1b[32m", "")
    assert "used: 1 of 1 GPU" in cell.shown()[0]


def test_a_syntax_error_is_that_of_the_cell(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%gpu\nx = = 1")
    assert cell.reply["ename"] == "SyntaxError"
    assert cell.kinds.count("error") == 1


def test_await_works_at_top_level(kernel: NotebookKernel, machine: GpuMachine) -> None:
    code = f"%%gpu\nimport asyncio\nawait asyncio.sleep(0)\n{machine.work()}\nawait asyncio.sleep(0, 'done')"
    cell = kernel.run(code)
    assert cell.result == "'done'"
    assert "used: 1 of 1 GPU" in cell.shown()[0]


def test_magics_within_the_cell_work(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%gpu\n%env GPUPROOF_NOTEBOOK_TEST=1\nwords = !echo hello\nwords")
    assert cell.result == "['hello']"
    assert "GPUPROOF_NOTEBOOK_TEST=1" in cell.printed


@pytest.mark.parametrize("magics", ["%%gpu\n%%time", "%%time\n%%gpu"])
def test_other_cell_magics_go_together_with_it(
    kernel: NotebookKernel, machine: GpuMachine, magics: str
) -> None:
    cell = kernel.run(f"{magics}\n{machine.work()}")
    assert "Wall time" in cell.printed
    assert "used: 1 of 1 GPU" in cell.shown()[0]


def test_a_cell_that_a_cell_runs_has_no_report_of_its_own(
    kernel: NotebookKernel, machine: GpuMachine
) -> None:
    code = f"%%gpu\nget_ipython().run_cell('%%gpu\\nnested = 1')\n{machine.work()}\nnested"
    cell = kernel.run(code)
    assert cell.result == "1"
    assert len(cell.shown()) == 1


def test_a_short_cell_is_not_judged(kernel: NotebookKernel) -> None:
    (text,) = kernel.run("%%gpu\npass").shown()
    assert text.startswith("GPUproof: this cell took ")
    assert "too short to measure" in text


def test_an_unknown_word_is_a_usage_error(kernel: NotebookKernel) -> None:
    assert kernel.run("%%gpu now\n1").printed.startswith("UsageError: usage: %gpu, %gpu watch on")
    assert kernel.run("%gpu watch").printed.startswith("UsageError: usage: %gpu")


def test_the_cost_of_the_instance_is_shown(tmp_path: Path, nvml_home: Path) -> None:
    machine = GpuMachine(tmp_path, nvml_home)
    instance = {
        "meta-data/instance-type": "g5.xlarge",
        "meta-data/placement/region": "us-east-1",
        "meta-data/instance-life-cycle": "on-demand",
    }
    with MetadataService(instance) as service:
        environment = {**machine.environment, "AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url}
        with notebook_kernel(tmp_path, environment) as kernel:
            kernel.run("%load_ext gpuproof")
            # The instance is looked up meanwhile, which may take longer than the first cell.
            wait_until(lambda: "g5.xlarge" in kernel.run(f"%%gpu\n{machine.work()}").shown()[0])
            text = kernel.run(f"%%gpu\n{machine.work()}").shown()[0]
    assert " on g5.xlarge in us-east-1 (on-demand), $0.00" in text


def test_the_stop_button_stops_the_cell_and_the_report_follows(tmp_path: Path, nvml_home: Path) -> None:
    machine = GpuMachine(tmp_path, nvml_home)
    with notebook_kernel(tmp_path, machine.environment) as kernel:
        kernel.run("%load_ext gpuproof")
        work = machine.work()
        request = kernel.client.execute(f"%%gpu\n{work}\nprint('ready', flush=True)\ntime.sleep(600)")
        while "ready" not in kernel.client.get_iopub_msg(timeout=300)["content"].get("text", ""):
            pass
        kernel.manager.interrupt_kernel()
        cell = kernel.finish(request)
        assert cell.reply["ename"] == "KeyboardInterrupt"
        assert cell.kinds[-2:] == ["error", "display_data"]
        assert "used: 1 of 1 GPU" in cell.shown()[0]
        # The next cell is watched, too.
        assert "used: 1 of 1 GPU" in kernel.run(f"%%gpu\n{work}").shown()[0]
