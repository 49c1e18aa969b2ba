"""The command-line arguments that a job passes to its script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuproof.linter.analysis.values import UNKNOWN, Value, known
from gpuproof.linter.jobs.commands import ALL_ARGUMENTS
from gpuproof.linter.jobs.definition import JobDefinition

_OWN = ("sagemaker_", "_tuning")
"""The start of the names of hyperparameters that the container itself reads."""


@dataclass(frozen=True)
class PassedArguments:
    """What a job passes on the command line of its script.

    Args:
        flags: by flag as it is written; the value is unknown where only the job's service knows it, such as for a
            hyperparameter that is tuned.
        positionals: words that follow no flag.
        complete: whether these are all.
        by: what passes them, for messages: `The job`, `The command`.
    """

    flags: Mapping[str, Value]
    positionals: tuple[str, ...] = ()
    complete: bool = True
    by: str = "The job"


def flag_of(name: str) -> str:
    """The flag that the toolkit passes for a hyperparameter: `--epochs`, or `-e` for a single letter."""
    return f"--{name}" if len(name) > 1 else f"-{name}"


def passed_hyperparameters(job: JobDefinition) -> dict[str, Value]:
    """The hyperparameters that the script gets as `--name value`, without those of the toolkit itself."""
    return {
        str(name): value
        for name, value in job.hyperparameters.parts.items()
        if not str(name).startswith(_OWN)
    }


def receives_hyperparameters(job: JobDefinition) -> bool:
    """Whether the container of a job passes hyperparameters to the script as command-line arguments.

    The framework containers do (sagemaker-training-toolkit, `mapping.to_cmd_args`), and so does SDK v3's driver. A command
    (`SourceCode(command=...)`, a container's own entry point) and a shell script without `"$@"` pass none.
    """
    return (
        job.kind == "training"
        and job.passes_arguments
        and (
            (job.source == "sagemaker-v2" and job.framework is not None)
            or job.source in ("sagemaker-v3", "gpuproof")
            or (job.source == "boto3" and job.entry_point.is_known)
        )
    )


def adds_model_dir(job: JobDefinition) -> bool:
    """Whether the SDK adds `--model_dir`. Source: sagemaker 2.257.7, `TensorFlow.hyperparameters`, unless it is False."""
    if job.source != "sagemaker-v2" or job.api.rpartition(".")[2] != "TensorFlow":
        return False
    given = job.argument("model_dir")
    return given.is_absent or (given.is_known and given.value is not False)


def passed_arguments(job: JobDefinition) -> PassedArguments | None:
    """The arguments of a job's script; None if it is not known how the job passes any."""
    if receives_hyperparameters(job):
        return _hyperparameters(job)
    if job.kind == "processing" and job.command.is_absent and job.entry_point.is_known:
        return _words_of(job.container_arguments)
    start = job.start
    if start is None or job.passes_arguments or start.is_conditional or job.link_end is not None:
        return None
    if job.source in ("command", "slurm") and not _is_plain_command(job):
        return None
    return _flags([known(word) if "$" not in word else UNKNOWN for word in start.arguments], "The command")


def _is_plain_command(job: JobDefinition) -> bool:
    """Whether the command of a shell script has only words that are written out: no variables, no substitutions."""
    lines = job.span.unit.lines
    at = (job.start.line if job.start is not None else 1) - 1
    written = lines[at : at + 1]
    while written and written[-1].rstrip().endswith("\\") and at + 1 < len(lines):
        at += 1
        written.append(lines[at])
    return bool(written) and not any(mark in line for line in written for mark in ("$", "`", "(", "|", "<"))


def passed_words(job: JobDefinition) -> Iterator[list[str | None]]:
    """The words of a script's command line, None for those that are unknown; no list if there may be others."""
    passed = passed_arguments(job)
    if passed is None or not passed.complete:
        return
    words: list[str | None] = []
    for flag, value in passed.flags.items():
        words.append(flag)
        if not (value.is_known and value.value is None):
            is_plain = value.is_known and isinstance(value.value, (str, int, float))
            words.append(str(value.value) if is_plain else None)
    yield [*passed.positionals, *words]


def _hyperparameters(job: JobDefinition) -> PassedArguments:
    given = job.hyperparameters
    is_known = given.is_absent or (given.entries is not None and given.entries.complete)
    if given.is_known and given.value is None:
        is_known = True
    flags = {flag_of(name): value for name, value in passed_hyperparameters(job).items()}
    if adds_model_dir(job):
        flags.setdefault("--model_dir", UNKNOWN)
    extra = [word for word in job.start.arguments if word != ALL_ARGUMENTS] if job.start is not None else []
    words = _flags([known(word) if "$" not in word else UNKNOWN for word in extra], "The job")
    return PassedArguments({**words.flags, **flags}, words.positionals, is_known and words.complete)


def _words_of(arguments: Value) -> PassedArguments | None:
    if arguments.is_unset:
        return PassedArguments({})
    if arguments.items is None:
        return None
    return _flags(list(arguments.items), "The job")


def _flags(words: list[Value], by: str) -> PassedArguments:
    flags: dict[str, Value] = {}
    positionals: list[str] = []
    complete = True
    flag: str | None = None
    for word in words:
        text = word.text if word.text is not None else str(word.value) if word.number is not None else None
        if text is not None and text.startswith("-") and not text[1:2].isdigit():
            name, equals, value = text.partition("=")
            flags[name] = known(value, word.span) if equals else known(None, word.span)
            flag = None if equals else name
        elif flag is not None:
            flags[flag], flag = word, None
        elif text is not None:
            positionals.append(text)
        elif word.prefix.startswith("--"):
            flags[word.prefix.partition("=")[0]] = UNKNOWN
            complete = complete and "=" in word.prefix
        else:
            complete = False
    return PassedArguments(flags, tuple(positionals), complete, by)
