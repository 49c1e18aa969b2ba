"""The names of everything that GPUproof keeps in a bucket: no other module spells them."""

from __future__ import annotations

from dataclasses import dataclass

ROOT = "gpuproof/"
"""What all keys begin with."""

OBJECTS = f"{ROOT}objects/"
"""Blobs by the digest of their content: the agent, source archives, single large inputs."""

INPUTS = f"{ROOT}inputs/"
"""Local input folders by the digest of their tree."""

MANIFESTS = f"{ROOT}manifests/"
"""What each uploaded input folder holds; written when all of it is there."""

RUNS = f"{ROOT}runs/"
CHECKPOINTS = f"{ROOT}checkpoints/"

AGENT, SOURCE, JOB = "gpuproof-agent.pyz", "source.tar.gz", "job.json"
"""The files of a run's code channel."""

CODE_TAGS = {"gpuproof:keep": "30-days"}
"""On the files of a code channel: the lifecycle of GPUproof's own bucket removes what has this tag."""


@dataclass(frozen=True)
class RunLayout:
    """Where one run keeps what it has on S3.

    Args:
        run_id: the run's id, which is its job's name on SageMaker.
    """

    run_id: str

    @property
    def prefix(self) -> str:
        """Everything that is this run's alone."""
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
    def output(self) -> str:
        """A training job's `S3OutputPath`: SageMaker puts `RUN_ID/output/model.tar.gz` below it."""
        return f"{self.prefix}output/"

    def processing_output(self, name: str) -> str:
        """Where a processing job's output of that name goes."""
        return f"{self.output}{name}/"

    @property
    def model_archive(self) -> str:
        """Where SageMaker puts a training job's model."""
        return f"{self.output}{self.run_id}/output/model.tar.gz"

    @property
    def output_archive(self) -> str:
        """Where SageMaker puts what a training job left in /opt/ml/output/data."""
        return f"{self.output}{self.run_id}/output/output.tar.gz"

    @property
    def verdict(self) -> str:
        """Where a processing job's verdict goes."""
        return f"{self.prefix}verdict/"


def object_key(digest: str) -> str:
    """The blob with that SHA-256, in hexadecimal digits."""
    return f"{OBJECTS}{digest}"


def input_prefix(digest: str) -> str:
    """The input folder whose tree has that digest."""
    return f"{INPUTS}{digest}/"


def manifest_key(digest: str) -> str:
    """What the input folder of that digest holds."""
    return f"{MANIFESTS}{digest}.json"


def checkpoint_prefix(job_name: str, first_run_id: str) -> str:
    """Checkpoints of a job, from the run that began them; later runs take them over."""
    return f"{CHECKPOINTS}{job_name}/{first_run_id}/"


def uri(bucket: str, key: str) -> str:
    """`s3://bucket/key`."""
    return f"s3://{bucket}/{key}"
