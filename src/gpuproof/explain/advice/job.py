"""Advice that compares the script with the job that was submitted: its channels, launcher and environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuproof.explain.context import Context, JobFacts, channel_variable
from gpuproof.explain.explanation import Advice, AdviceFunction

_CHANNEL = "SM_CHANNEL_"
_HYPERPARAMETER = "SM_HP_"


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
    if job is None or job.variables_read is None:
        return None
    path = groups.get("path")
    unread = [name for name in job.channels if channel_variable(name) not in job.variables_read]
    # A file that is missing may have nothing to do with a channel that is optional.
    if job.missing_channels and (path is None or unread or not job.channels):
        return _wrong_channels(job, job.missing_channels)
    if path is None or path.startswith("/"):
        return None
    top, _, rest = path.removeprefix("./").partition("/")
    if rest and top in job.files:
        return Advice(
            f"The folder {top} was sent with the job, but without {rest}.",
            "Check its spelling (upper and lower case count), and whether a .gitignore or .dockerignore leaves it out.",
            instead=True,
        )
    if not unread:
        return None
    variables = ", ".join(map(channel_variable, unread))
    return Advice(
        f"The job has the {_named(unread)}, but {job.entry_point} does not read {variables}.",
        f"os.path.join(os.environ['{channel_variable(unread[0])}'], '{groups['path'].rpartition('/')[2]}') in the script.",
        instead=True,
    )


def spelling(groups: Mapping[str, str], context: Context) -> Advice | None:
    """An option that the job passes and the script defines, with `-` in one place and `_` in the other."""
    job = context.job
    if job is None:
        return None
    flags = [word.partition("=")[0] for word in groups.get("arguments", "").replace(",", " ").split()]
    wanted = [flag for flag in flags if flag.startswith("--")]
    if groups["code"] == "unknown-argument":
        passed = [name for name in job.hyperparameters if f"--{name}" in wanted]
        if not passed:
            return None
        return Advice(
            f"They come from the hyperparameters {', '.join(passed)} of this job: each becomes an option of its exact name, "
            "so --batch_size and --batch-size are two."
        )
    for flag in wanted:
        near = next((name for name in job.flags if name != flag and _plain(name) == _plain(flag)), None)
        if near is not None:
            return Advice(
                f"This job passes {near}; the script defines {flag}.", f"Pass {flag}.", instead=True
            )
    if not job.flags:
        return Advice("This job passes no options.")
    return Advice(f"This job passes {', '.join(job.flags)}.")


def hyperparameter(groups: Mapping[str, str], context: Context) -> Advice | None:
    """A hyperparameter that the script reads and the job does not have."""
    name = groups.get("variable", "").removeprefix(_HYPERPARAMETER).lower()
    if context.job is None or not groups.get("variable", "").startswith(_HYPERPARAMETER):
        return None
    known = ", ".join(context.job.hyperparameters) or "none"
    return Advice(
        f"The script reads the hyperparameter {name}; this job has {known}.",
        f"gpuproof run {context.job.entry_point} -p {name}=VALUE, or hyperparameters: {{{name}: VALUE}} in gpuproof.yaml",
        instead=True,
    )


def launcher(groups: Mapping[str, str], context: Context) -> Advice | None:
    """Which launcher the job has: the processes of torchrun and mpirun have ranks, a single process has none."""
    job = context.job
    if job is None or job.launcher is None:
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
    "spelling": spelling,
    "hyperparameter": hyperparameter,
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


def _plain(flag: str) -> str:
    return flag.replace("_", "-").lower()


def _named(channels: Sequence[str]) -> str:
    names = ", ".join(f"'{name}'" for name in channels)
    return f"channel {names}" if len(channels) == 1 else f"channels {names}"
