"""`rt.watch()` with workers of data loaders, ranks of torchrun, and in a notebook's kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.optional_packages import skip_without
from support.watch_machine import WatchMachine

skip_without("torch", "ipykernel")

pytestmark = pytest.mark.slow

UNUSED = "No process of the job opened a GPU."
LOADER = """
import torch
import gpuproof.runtime as rt

rt.watch()

class Rows(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, index): return torch.ones(2)

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(
            Rows(), 2, num_workers=2, multiprocessing_context=method, persistent_workers=True
        )
        print(method, sum(batch.sum().item() for batch in loader))
"""
RANK = """
import os, sys
import torch.distributed as dist
import gpuproof.runtime as rt

rt.watch(report=os.environ["REPORT"])
dist.init_process_group("gloo")
rank = dist.get_rank()
if os.environ["WORKS"] and rank == 1:
    exec(os.environ["WORKS"])
dist.barrier()
dist.destroy_process_group()
"""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def test_workers_of_data_loaders_report_nothing(machine: WatchMachine):
    ended = machine.run(LOADER)
    assert (ended.returncode, ended.stdout) == (4, "fork 16.0\nspawn 16.0\n"), ended.stderr
    assert ended.stderr.count(UNUSED) == 1
    assert "does nothing" not in ended.stderr


@pytest.mark.parametrize("works", [True, False])
def test_the_ranks_of_a_host_have_one_verdict(machine: WatchMachine, tmp_path: Path, works: bool):
    report = tmp_path / "report.json"
    ended = machine.run_words(
        *TORCHRUN,
        str(machine.write(RANK)),
        REPORT=str(report),
        WORKS=machine.works if works else "",
        OMP_NUM_THREADS="1",
    )
    assert (ended.returncode == 0) == works, ended.stderr
    assert ended.stderr.count("\nenergy ") == 1, ended.stderr
    document = json.loads(report.read_text())
    assert document["verdict"]["outcome"] == ("used" if works else "cpu-only")
    assert document["exit_code"] == 0
    if not works:
        assert "exitcode  : 4" in ended.stderr


KERNEL = """
import sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3")
def run(code):
    errors = []
    def show(message):
        content = message["content"]
        if message["header"]["msg_type"] == "stream": print(content["text"], end="")
        if message["header"]["msg_type"] == "error": errors.append(content["ename"])
    client.execute_interactive(code, output_hook=show)
    print(errors)
run("import gpuproof.runtime as rt")
run("watch = rt.watch()")
run("with rt.watch(): pass")
run("from gpuproof.runtime.callbacks.gpu_reporter import GpuReporter; training = GpuReporter(); training.begin()")
run("print('end of training', flush=True); training.end()")
client.shutdown()
manager.shutdown_kernel()
"""


def test_a_notebook_gets_a_note_and_blocks_work(machine: WatchMachine):
    ended = machine.run(KERNEL)
    assert ended.returncode == 0, ended.stderr
    note, *_ = (line for line in ended.stdout.splitlines() if line.startswith("gpuproof: "))
    assert "with rt.watch():" in note
    block, _, training = ended.stdout.partition("end of training\n")
    assert UNUSED in block
    assert "['GpuUnused']" in block
    assert UNUSED in training
    assert training.splitlines()[-1] == "[]"
