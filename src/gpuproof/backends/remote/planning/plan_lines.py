"""Lines of a plan on AWS: its GPUs, inputs and outputs, with labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuproof.backends.agent_job.expected_gpus import ExpectedGpus
from gpuproof.backends.remote.agent_job import unused_rule
from gpuproof.backends.remote.upload.input_folder import InputFolder
from gpuproof.jobs.models.machine import MachineJob
from gpuproof.jobs.models.script_jobs import Job, TrainingJob
from gpuproof.units import Duration
from gpuproof.util.humanize import format_bytes, pluralize

_IDLE_ACTIONS = {"stop": "stopped", "fail": "failed", "warn": "reported"}


def gpu_text(job: Job, expected: ExpectedGpus) -> str:
    """The GPUs that the job requests, and what happens if they are not used."""
    if not expected.count:
        return f"none requested ({expected.because})"
    # For the default rule there is a warning, which explains more.
    rule = unused_rule(job, expected) if job.if_gpu_unused is not None else None
    idle = ""
    if rule is not None:
        idle = f"; {_IDLE_ACTIONS[rule.action]} if unused for the first {Duration(int(rule.grace))}"
    return f"{expected.count} x {expected.name or 'any model'} requested ({expected.because}){idle}"


def input_lines(
    job: Job, addresses: Mapping[str, str], folders: Mapping[str, InputFolder]
) -> Iterator[tuple[str, str]]:
    """A line for each input.

    Args:
        addresses: its `s3://` address by name.
    """
    for name, address in addresses.items():
        folder = folders.get(name)
        what = address
        if folder is not None:
            files = f"{pluralize(len(folder.files), 'file')}, {format_bytes(folder.total_bytes)}"
            what = f"{files} from {folder.root}"
        given = job.inputs[name]
        path = f"/opt/ml/input/data/{name}" if isinstance(given, str) else given.path
        yield "input", f"{path} is {what}"


def output_lines(
    job: Job, output: str, outputs: Mapping[str, str], checkpoints: str | None
) -> Iterator[tuple[str, str]]:
    """A line for each output.

    Args:
        output: the `s3://` prefix of a training job's archives.
        outputs: the `s3://` addresses of a processing job's outputs by key.
        checkpoints: the `s3://` prefix of a training job's checkpoints.
    """
    if isinstance(job, MachineJob):
        if checkpoints is not None:
            yield "work", f"{job.source_dir} and its changes, kept in {checkpoints}"
        return
    if isinstance(job, TrainingJob):
        yield "output", _destination_text(output, job.output)
        if checkpoints is not None:
            yield "checkpoint", checkpoints
        return
    for key, given in job.outputs.items():
        yield "output", f"{given.path} goes to {_destination_text(outputs[key], given.destination)}"


def _destination_text(address: str, wanted: str | None) -> str:
    return address if wanted is None or wanted == address else f"{address}, and at the end to {wanted}"
