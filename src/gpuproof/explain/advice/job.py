"""Advice that compares the script with the job that was submitted: its channels, launcher and environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuproof.explain.context import Context, JobFacts, channel_variable
from gpuproof.explain.explanation import Advice, AdviceFunction

_CHANNEL = "SM_CHANNEL_"


def channel(groups: Mapping[str, str], context: Context) -> Advice | None:
    """The input channel that the script reads, and those that the job has."""
    variable = groups.get("variable", "")
    name = groups.get("channel") or groups.get("channel2") or ""
    if variable.startswith(_CHANNEL):
        name = variable.removeprefix(_CHANNEL).lower()
    if not name:
        return None
    if context.job is not None and name not in context.job.channels:
        return _wrong_channels(context.job, (name,))
    if context.job is not None:
        return Advice(
            f"The job has the channel '{name}', but the file is not in it.",
            "The path in the channel is another: ls -R of the folder that was given as input shows the files.",
            instead=True,
        )
    return Advice(
        f"The script reads the channel '{name}'.",
        f"gpuproof run train.py --input {name}=DATA, or inputs: {{{name}: DATA}} in gpuproof.yaml",
    )


def job_channels(groups: Mapping[str, str], context: Context) -> Advice | None:
    """Channels that the script reads and the job does not have, or that the job has and the script does not read."""
    job = context.job
    if job is None:
        return None
    if job.missing_channels:
        return _wrong_channels(job, job.missing_channels)
    unread = [name for name in job.channels if channel_variable(name) not in job.variables_read]
    if not unread or groups.get("path", "/").startswith("/"):
        return None
    variables = ", ".join(map(channel_variable, unread))
    return Advice(
        f"The job has the {_named(unread)}, but {job.entry_point} does not read {variables}.",
        f"os.path.join(os.environ['{channel_variable(unread[0])}'], '{groups['path'].rpartition('/')[2]}') in the script.",
        instead=True,
    )


def launcher(groups: Mapping[str, str], context: Context) -> Advice | None:
    """Which launcher the job has: the processes of torchrun and mpirun have ranks, a single process has none."""
    job = context.job
    if job is None:
        return None
    if job.launcher == "none":
        return Advice(
            "This job has no distribution, so the script is started as one process.",
            f"gpuproof run {job.entry_point} --distribution torchrun, or distribution: torchrun in gpuproof.yaml. "
            "A script for one GPU needs no init_process_group.",
            instead=True,
        )
    return Advice(
        f"This job's distribution is {job.launcher}, which sets {groups.get('variable', 'RANK')} for the processes that it "
        "starts: the process that failed is another one.",
        "Do not start processes with subprocess or a cleared environment; pass env=os.environ to them.",
        instead=True,
    )


ADVICE: dict[str, AdviceFunction] = {
    "channel": channel,
    "job_channels": job_channels,
    "launcher": launcher,
}


def _wrong_channels(job: JobFacts, missing: Sequence[str]) -> Advice:
    variables = ", ".join(map(channel_variable, missing))
    if not job.channels:
        return Advice(
            f"{job.entry_point} reads {variables}, but this job has no input channels.",
            f"--input {missing[0]}=DATA (inputs: {{{missing[0]}: DATA}} in gpuproof.yaml)",
            instead=True,
        )
    return Advice(
        f"{job.entry_point} reads {variables}, which this job does not set: it has the {_named(job.channels)}.",
        f"Rename the input: --input {missing[0]}=DATA (inputs: {{{missing[0]}: DATA}} in gpuproof.yaml), or read "
        f"os.environ['{channel_variable(job.channels[0])}'] in the script.",
        instead=True,
    )


def _named(channels: Sequence[str]) -> str:
    names = ", ".join(f"'{name}'" for name in channels)
    return f"channel {names}" if len(channels) == 1 else f"channels {names}"
