"""The names of all objects that GPUproof keeps in a bucket; no other module spells them out."""

from __future__ import annotations

from dataclasses import dataclass

ROOT = "gpuproof/"
"""Prefix of all keys."""

OBJECTS = f"{ROOT}objects/"
"""Files by the digest of their content: agents and source archives."""

INPUTS = f"{ROOT}inputs/"
"""Local input folders by the digest of their tree."""

MANIFESTS = f"{ROOT}manifests/"
"""List of the files of each uploaded input folder, written after all of them."""

RUNS = f"{ROOT}runs/"
CHECKPOINTS = f"{ROOT}checkpoints/"

LAUNCHES = f"{ROOT}ec2/"
"""The clients' records of runs on EC2: one listing finds all runs without the names of their files."""

NOTEBOOKS = f"{ROOT}notebooks/"
"""Agents of notebook instances, which must not expire while an instance is stopped, and what instances report."""

LAUNCH_REGIONS = f"{LAUNCHES}regions/"
"""An empty object for each run on EC2 whose instances are in another region than the bucket: `REGION/RUN_ID`."""

AGENT, SOURCE, JOB, ENVIRONMENT = "gpuproof-agent.pyz", "source.tar.gz", "job.json", "environment.json"
"""The files of a run's code channel."""

CODE_TAGS = {"gpuproof:keep": "30-days"}
"""Tag of the files of a code channel: a lifecycle rule of GPUproof's own bucket removes objects with this tag."""

KEPT_DAYS = 30
"""Days after which GPUproof's own bucket removes code; results, inputs and checkpoints are kept until removed."""


@dataclass(frozen=True)
class RunLayout:
    """The keys of one run's files.

    Args:
        run_id: the run's id, which is the name of its SageMaker job.
    """

    run_id: str

    @property
    def prefix(self) -> str:
        """Prefix of all files of this run."""
        return f"{RUNS}{self.run_id}/"

    @property
    def code(self) -> str:
        """The code channel's prefix."""
        return f"{self.prefix}code/"

    @property
    def agent(self) -> str:
        return f"{self.code}{AGENT}"

    @property
    def source(self) -> str:
        return f"{self.code}{SOURCE}"

    @property
    def job(self) -> str:
        return f"{self.code}{JOB}"

    @property
    def environment(self) -> str:
        """Key of the job's environment variables, on EC2."""
        return f"{self.code}{ENVIRONMENT}"

    @property
    def output(self) -> str:
        """A training job's `S3OutputPath`: SageMaker writes `RUN_ID/output/model.tar.gz` below it."""
        return f"{self.prefix}output/"

    def processing_output(self, name: str) -> str:
        """Prefix of a processing job's output."""
        return f"{self.output}{name}/"

    @property
    def model_archive(self) -> str:
        """Key of a training job's model."""
        return f"{self.output}{self.run_id}/output/model.tar.gz"

    @property
    def output_archive(self) -> str:
        """Key of the archive of a training job's /opt/ml/output/data."""
        return f"{self.output}{self.run_id}/output/output.tar.gz"

    @property
    def launch(self) -> str:
        """Key of the client's record of a run on EC2, written before its instances are launched."""
        return f"{LAUNCHES}{self.run_id}.json"

    def launch_region(self, region: str) -> str:
        """Key that says that the run's instances are in another region than the bucket."""
        return f"{LAUNCH_REGIONS}{region}/{self.run_id}"

    @property
    def hosts(self) -> str:
        """Prefix of what the hosts of a run on EC2 write: a folder for each host."""
        return f"{self.prefix}hosts/"

    def host_file(self, host: str, name: str) -> str:
        """Key of a file of one host on EC2: `boot.json`, `run.json`, `verdict.json` or `end.json`."""
        return f"{self.hosts}{host}/{name}"

    @property
    def verdict(self) -> str:
        """Prefix of a processing job's verdict."""
        return f"{self.prefix}verdict/"


def object_key(digest: str) -> str:
    """Key of the file with that SHA-256 digest in hexadecimal."""
    return f"{OBJECTS}{digest}"


def input_prefix(digest: str) -> str:
    """Prefix of the input folder with that digest."""
    return f"{INPUTS}{digest}/"


def manifest_key(digest: str) -> str:
    """Key of the list of files of the input folder with that digest."""
    return f"{MANIFESTS}{digest}.json"


def checkpoint_prefix(job_name: str, first_run_id: str) -> str:
    """Prefix of a job's checkpoints, named after its first run; later runs continue from them."""
    return f"{CHECKPOINTS}{job_name}/{first_run_id}/"


def launched_run(key: str) -> str | None:
    """The run whose launch record has that key; None for any other key."""
    name = key.removeprefix(LAUNCHES)
    return name.removesuffix(".json") if name != key and name.endswith(".json") and "/" not in name else None


def region_of_launch(key: str) -> str | None:
    """The region in a key of `RunLayout.launch_region`; None for any other key."""
    return key.removeprefix(LAUNCH_REGIONS).partition("/")[0] if key.startswith(LAUNCH_REGIONS) else None


def uri(bucket: str, key: str) -> str:
    """`s3://bucket/key`."""
    return f"s3://{bucket}/{key}"


def notebook_agent_key(digest: str) -> str:
    """Key of the agent with that digest, from which notebook instances start their watcher."""
    return f"{NOTEBOOKS}agents/{digest}.pyz"


def notebook_results(name: str) -> str:
    """Prefix of what a notebook instance reports: `gpu-check.txt` and `idle.json` in a folder of its name."""
    return f"{NOTEBOOKS}results/{name}"
