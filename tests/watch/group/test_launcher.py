"""Who is a member of which job, from the variables that launchers set."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.util.host_list import expand_hosts
from gpuproof.util.launcher import Member, find_member
from support.ports import free_port

SRUN = {
    "SLURM_JOB_ID": "17",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_NODEID": "1",
    "SLURMD_NODENAME": "n2",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_TASKS_PER_NODE": "3,2",
    "SLURM_NTASKS_PER_NODE": "3",
}
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "MASTER_ADDR": "10.0.0.4",
    "MASTER_PORT": "29500",
    "WORLD_SIZE": "16",
    "LOCAL_WORLD_SIZE": "8",
    "GROUP_WORLD_SIZE": "2",
}
MPIRUN = {
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "prterun-head-4242@1",
    "PMIX_HOSTNAME": "worker-1",
}
POD = {
    "JOB_COMPLETION_INDEX": "3",
    "HOSTNAME": "train-3",
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-2]", ["n1", "n2"]),
        ("gpu-[08-11,20],login", ["gpu-08", "gpu-09", "gpu-10", "gpu-11", "gpu-20", "login"]),
        ("r[1-2]n[1-2]-ib", ["r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"]),
        ("", []),
    ],
)
def test_slurms_short_form_of_names(text: str, names: list[str]):
    assert sorted(expand_hosts(text)) == sorted(names)


def test_a_list_of_a_billion_hosts_is_refused():
    with pytest.raises(ValueError, match="more than"):
        expand_hosts("n[1-1000000000]")


def test_a_task_of_srun():
    assert find_member(SRUN) == Member("slurm-17.0", "n2", "Slurm", 2, 5, 2, ("n1", "n2"))


def test_the_script_of_sbatch_is_one_process_whatever_the_jobs_tasks_are():
    script = {name: value for name, value in SRUN.items() if name != "SLURM_STEP_ID"}
    member = find_member(script)
    assert member == Member("slurm-17.batch", "n2", "Slurm", 1, 1, 1, ("n2",))
    assert member is not None
    assert not member.has_peers


def test_a_shell_of_salloc_is_no_member():
    assert find_member({"SLURM_JOB_ID": "17", "SLURM_NNODES": "2"}) is None


def test_a_worker_of_torchrun_under_srun_belongs_to_torchruns_job():
    member = find_member({**SRUN, **TORCHRUN})
    assert member == Member("torchrun-10.0.0.4-29500", "n2", "torchrun", 8, 16, 2)


def test_torchruns_own_name_of_the_job_is_taken():
    member = find_member({**TORCHRUN, "TORCHELASTIC_RUN_ID": "cats"})
    assert member is not None
    assert member.group == "torchrun-cats"


def test_a_rank_of_mpirun_under_srun_belongs_to_mpiruns_job():
    daemon = {name: value for name, value in SRUN.items() if name != "SLURMD_NODENAME"}
    assert find_member({**daemon, **MPIRUN}) == Member("mpirun-head-4242-1", "worker-1", "Open MPI", 2, 4)


def test_a_pod_of_an_indexed_job():
    assert find_member(POD, hosts=4) == Member("job-train", "train-3", "Kubernetes", 1, None, 4)


def test_a_host_of_a_sagemaker_job(tmp_path: Path):
    config = tmp_path / "input" / "config"
    config.mkdir(parents=True)
    hosts = ["algo-1", "algo-2"]
    (config / "resourceconfig.json").write_text(json.dumps({"current_host": "algo-2", "hosts": hosts}))
    container = {"SAGEMAKER_BASE_DIR": str(tmp_path), "TRAINING_JOB_NAME": "digits"}
    member = find_member(container)
    assert member == Member("sagemaker-digits", "algo-2", "SageMaker", 1, 2, 2, tuple(hosts))
    assert member is not None
    assert not member.has_peers
    worker = find_member({**container, **TORCHRUN})
    assert worker is not None
    assert worker.launcher == "torchrun"


def test_a_pod_in_its_nodes_network_has_a_host_name_of_its_own():
    member = find_member({**POD, "HOSTNAME": "ip-10-0-0-4"}, group="cats")
    assert member is not None
    assert (member.group, member.host) == ("cats", "ip-10-0-0-4-3")


def test_a_name_of_the_user_stands_for_the_launchers():
    member = find_member(SRUN, group="cats")
    assert member is not None
    assert (member.group, member.local_size) == ("cats", 2)


def test_a_name_alone_makes_a_job():
    assert find_member({}, group="cats", hosts=3) == Member("cats", socket.gethostname(), hosts=3)


def test_a_process_without_a_launcher_is_no_member():
    assert find_member({}) is None


@pytest.mark.slow
def test_the_variables_are_those_of_real_torchrun():
    pytest.importorskip("torch")
    program = "import os; from gpuproof.util.launcher import find_member; print(find_member(os.environ))"
    rendezvous = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--rdzv-id=cats"]
    script = ["--no-python", sys.executable, "-c", program]
    ended = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *rendezvous, "--nproc-per-node=2", *script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    member = Member("torchrun-cats", socket.gethostname(), "torchrun", 2, 2, 1)
    assert ended.stdout.splitlines() == [str(member)] * 2
