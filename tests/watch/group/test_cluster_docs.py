"""The recipes of docs/watch-clusters.md: they run on real Slurm with torchrun, and as the pods of an indexed Job."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from gpuproof.util.launcher import Member
from gpuproof.watch.group.publication import Publisher
from support.emulated_account import emulated_account
from support.ports import free_port
from support.ranked_jobs import RankedJob
from support.s3_server import CREDENTIALS, MotoServer
from support.slurm_cluster import SlurmCluster, slurm_cluster
from support.watch_reports import host_report

PAGE = (Path(__file__).parents[3] / "docs" / "watch-clusters.md").read_text()
# A worker uses the GPU of its host with its number there; all workers add up.
TRAIN = """
import os, sys
host = int(os.environ.get("JOB_COMPLETION_INDEX") or os.environ["SLURM_NODEID"])
if "LOCAL_RANK" in os.environ:
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    total = torch.tensor([1])
    dist.all_reduce(total)
    print(f"workers {total.item()}\\n", end="", flush=True)
local_rank = os.environ.get("LOCAL_RANK") or os.environ["SLURM_LOCALID"]
os.environ["TEST_RANK"] = str(2 * host + int(local_rank))
sys.argv = ["rank.py", "."]
exec(open("rank.py").read())
"""
GROUP = "slurm-17.0"

pytestmark = pytest.mark.slow
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="not installed: torch")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


BATCH_SCRIPTS = {"torchrun" if "torchrun" in block else "tasks": block for block in blocks("bash")}


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with slurm_cluster() as started:
        yield started


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoServer]:
    server = MotoServer()
    yield server
    server.stop()


@pytest.fixture
def job(tmp_path: Path, nvml_home: Path) -> RankedJob:
    """Four GPUs, the script, and the programs that the recipes call."""
    created = RankedJob(tmp_path, nvml_home)
    created.works(0, 1, 2, 3)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "bin").mkdir()
    modules = {"gpuproof": "-m gpuproof", "torchrun": "-m torch.distributed.run", "python": ""}
    for name, words in modules.items():
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
        program.chmod(0o755)
    created.variables["OMP_NUM_THREADS"] = "1"
    return created


@pytest.mark.parametrize("form", [pytest.param("torchrun", marks=needs_torch), "tasks"])
def test_the_batch_scripts_have_the_verdict_on_the_job(job: RankedJob, cluster: SlurmCluster, form: str):
    # Each node has two GPUs, which Slurm here knows nothing of, and the nodes' names are no addresses.
    script = re.sub(r"#SBATCH --gpus.*\n", "", BATCH_SCRIPTS[form]).replace("node=8", "node=2")
    script = script.replace("$head:29500", f"127.0.0.1:{free_port()}").replace("/fsx", str(job.folder))
    (job.folder / "job.sh").write_text(script)
    path = f"{job.folder / 'bin'}:{cluster.environment['PATH']}"
    state = cluster.run_job(
        *(f"--chdir={job.folder}", "--output=out", str(job.folder / "job.sh")),
        **{**job.variables, "PATH": path},
    )
    output = (job.folder / "out").read_text()
    assert state == "COMPLETED", output
    assert "used: 4 of 4 GPUs on 2 hosts worked" in output
    assert output.count("workers 4") == (4 if form == "torchrun" else 0)
    (folder,) = (job.folder / "reports").iterdir()
    assert re.fullmatch(r"slurm-\d+\.0", folder.name)


@needs_torch
def test_the_pods_of_the_job_have_the_verdict_on_it(job: RankedJob, moto: MotoServer):
    (manifest,) = blocks("yaml")
    service, indexed = yaml.safe_load_all(manifest)
    spec, pod = indexed["spec"], indexed["spec"]["template"]["spec"]
    assert (spec["completionMode"], spec["completions"]) == ("Indexed", spec["parallelism"])
    assert service["metadata"]["name"] == pod["subdomain"]
    assert service["spec"]["selector"] == {"job-name": indexed["metadata"]["name"]}
    (container,) = pod["containers"]
    bucket, port = moto.bucket(), free_port()
    here = {"my-bucket": bucket.name, "per-node=8": "per-node=2", "train-0.train": "127.0.0.1"}
    pods = []
    for index in range(spec["completions"]):
        words = [word.replace("$(JOB_COMPLETION_INDEX)", str(index)) for word in container["command"]]
        for text, replacement in here.items():
            words = [word.replace(text, replacement) for word in words]
        words.insert(words.index("train.py"), f"--master-port={port}")
        pods.append(
            job.start(
                words,
                **{**CREDENTIALS, "AWS_ENDPOINT_URL_S3": moto.url, "KUBERNETES_SERVICE_HOST": "10.96.0.1"},
                PATH=f"{job.folder / 'bin'}:/usr/bin:/bin",
                HOSTNAME=f"{bucket.name}-{index}",
                JOB_COMPLETION_INDEX=str(index),
                CUDA_VISIBLE_DEVICES=f"{2 * index},{2 * index + 1}",
            )
        )
    ended = [pod.communicate(timeout=600) for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0], ended
    assert sum("used: 4 of 4 GPUs on 2 hosts worked" in errors for _, errors in ended) == 1, ended


def test_the_policy_is_enough_and_nothing_less_is(tmp_path: Path):
    policy = json.loads(blocks("json")[0])
    allowed, without_list = policy["Statement"], policy["Statement"][:1]
    with emulated_account(tmp_path, enforce_iam=True) as account:
        account.client("s3", "us-east-1").create_bucket(Bucket="my-bucket")
        iam = account.client("iam", "us-east-1")
        iam.create_user(UserName="node")
        key = iam.create_access_key(UserName="node")["AccessKey"]
        environ = {
            **account.environment,
            "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
        }
        environ.pop("AWS_SESSION_TOKEN", None)
        notes: list[tuple[str, ...]] = []
        jobs: list[bool] = []
        for statements in ([], without_list, allowed):
            document = json.dumps(
                {**policy, "Statement": statements or [{**without_list[0], "Effect": "Deny"}]}
            )
            iam.put_user_policy(UserName="node", PolicyName="reports", PolicyDocument=document)
            member = Member(GROUP, "n1", "Slurm", 2, 2, 1, ("n1",))
            published = Publisher(member, "s3://my-bucket/jobs", environ, 0.0).publish(host_report("n1"))
            notes.append(published.notes)
            jobs.append(published.job is not None)
    assert jobs == [False, False, True]
    assert [note.partition("need ")[2] for (note,) in notes[:2]] == ["s3:PutObject.", "s3:ListBucket."]
    assert notes[2] == ()
