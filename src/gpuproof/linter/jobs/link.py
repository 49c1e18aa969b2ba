"""Links each job that units describe to its script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from gpuproof.linter.analysis.values import Value, known
from gpuproof.linter.analysis.workspace import Workspace
from gpuproof.linter.internal_errors import ErrorLog
from gpuproof.linter.jobs.commands import ALL_ARGUMENTS
from gpuproof.linter.jobs.commands.files import image
from gpuproof.linter.jobs.commands.follow import Followed, Follower, LinkEnd
from gpuproof.linter.jobs.commands.programs import Start, read_text, read_words
from gpuproof.linter.jobs.commands.shell import Shell
from gpuproof.linter.jobs.definition import CONTAINERS, JobDefinition
from gpuproof.linter.jobs.describe import described_jobs
from gpuproof.linter.jobs.image_recipes import built_by, only_recipe, public_image_name
from gpuproof.linter.source.project_root import launch_folders
from gpuproof.linter.source.span import Span, Unit

_CHECK_SCRIPT = "Name the script on the command line, too: gpuproof check LAUNCHER SCRIPT."


def find_jobs(
    units: Iterable[Unit],
    workspace: Workspace,
    log: ErrorLog | None = None,
    instance_type: str | None = None,
) -> list[JobDefinition]:
    """Every job that the units describe, each linked to its script, in the order of the units.

    Args:
        units: the texts that may describe jobs.
        log: gets the exceptions; a job or unit that raises one is left out.
    """
    log = log or ErrorLog()
    found: list[JobDefinition] = []

    def linked(job: JobDefinition) -> Iterator[JobDefinition]:
        if instance_type is not None and (job.instance_type.span is not None or job.source == "command"):
            job = replace(job, instance_type=known(instance_type, job.instance_type.span))
            if job.source == "command":
                job = replace(job, instance_count=known(1))
        yield from _linked(job, workspace)

    for unit in units:
        for job in log.guard(partial(described_jobs, unit, workspace), unit.path, task="finding the jobs"):
            found += log.guard(partial(linked, job), unit.path, task="finding the script of a job")
        workspace.trim()
    return found


def assumed_job(unit: Unit, workspace: Workspace, instance_type: str) -> JobDefinition | None:
    """A training job that runs a script on an instance type, for scripts that no file describes a job for."""
    module = workspace.module(unit) if unit.kind in ("python", "cell-file") else None
    if module is None:
        return None
    start = unit.span(1)
    return JobDefinition(
        kind="training",
        source="what-if",
        api=f"--instance-type {instance_type}",
        span=start,
        instance_type=known(instance_type),
        instance_count=known(1),
        entry_point=known(unit.absolute.name),
        module=module,
        script=module,
        script_found=True,
    )


def _linked(job: JobDefinition, workspace: Workspace) -> list[JobDefinition]:
    """A job for each script that it runs; the job itself, with the reason, if none can be found."""
    if job.source == "remote" and job.script_unit is not None:
        return [replace(job, script=workspace.module(job.script_unit), script_found=True)]
    if job.model is not None:
        job = replace(job, model=_linked(job.model, workspace)[0])
    if "git_config" in job.arguments and not job.argument("git_config").is_unset:
        return [job]
    if job.source in CONTAINERS or "dockerfile" in job.arguments:
        return _linked_container(job, workspace)
    if job.command.is_absent and job.entry_point.is_absent:
        return _own_image(job, workspace)
    folders = _source_folder(job)
    if folders is None:
        return [replace(job, link_end=LinkEnd("the source folder is not on this machine", _CHECK_SCRIPT))]
    starts = _starts(job)
    if isinstance(starts, LinkEnd):
        return [replace(job, link_end=starts)]
    recipe = job.span.unit if job.span.unit.kind == "dockerfile" else None
    job = replace(job, recipe=recipe)
    if job.source == "container" and job.instance_type.is_absent:
        recipe = _only_dockerfile(launch_folders(job.span.unit.absolute), workspace)
        starts = _starts(_with_entry_point(job, recipe)) if recipe is not None else starts
        if isinstance(starts, LinkEnd):
            return [replace(job, link_end=starts)]
    hints = [value.text for value in job.hyperparameters.parts.values() if value.text is not None]
    folders += _packaged_from(job, folders, workspace)
    followed = Follower(workspace, folders, recipe and _copied_by(recipe), hints).follow(starts)
    end = followed.ends[0] if followed.ends else None
    if not followed.scripts:
        if job.source == "container" and end is None:
            return []  # user data that installs something, a container with a program of its own
        if end is None and _is_found(job, folders, workspace):
            end = LinkEnd(f"`{job.entry_point.text}` is not Python")
        end = end or LinkEnd("the command starts no Python script that is known here")
        return [replace(job, script_found=_is_found(job, folders, workspace), link_end=end)]
    return _with_scripts(job, followed, workspace)


def _with_scripts(job: JobDefinition, followed: Followed, workspace: Workspace) -> list[JobDefinition]:
    several, end = len(followed.scripts) > 1, followed.ends[0] if followed.ends else None
    return [
        replace(
            job,
            span=_line_of(job, script.start),
            script=workspace.module(script.unit),
            script_found=True,
            script_unit=script.unit,
            # A single start has no alternative, whatever its condition is.
            start=script.start if several else replace(script.start, is_conditional=False),
            runs_others=several,
            link_end=end if script is followed.scripts[0] else None,
        )
        for script in followed.scripts
    ]


def _line_of(job: JobDefinition, start: Start) -> Span:
    """The line of a file of commands that starts a script; the file's first line if another file starts it."""
    lines = job.span.unit.lines
    if job.source not in ("command", "slurm") or not 1 < start.line <= len(lines):
        return job.span
    name = start.launchers[0] if start.launchers else start.program
    return job.span.unit.span(start.line) if name in lines[start.line - 1] else job.span


def _starts(job: JobDefinition) -> list[Start] | LinkEnd:
    """What a job starts; why that is unknown, if it is."""
    if not job.command.is_absent:
        if (text := _partly_known(job.command)) is not None:
            return list(read_text(text, Shell()))
        words = job.command.items
        if words is None:
            return LinkEnd("its command is only known when the launcher runs", _CHECK_SCRIPT)
        return list(read_words([_partly_known(word) or _source(word) for word in words]))
    entry = job.entry_point
    if not entry.is_known or entry.text is None:
        return LinkEnd(
            f"its script ({_source(entry)[2:-1]}) is only known when the launcher runs", _CHECK_SCRIPT
        )
    if "://" in entry.text:
        return LinkEnd(f"`{entry.text}` is not on this machine", _CHECK_SCRIPT)
    kind = "shell" if entry.text.endswith((".sh", ".bash")) else "python"
    return [Start(kind, entry.text, (ALL_ARGUMENTS,))]


_IMAGES_OF_AWS = re.compile(
    r"/(pytorch|tensorflow|huggingface|mxnet|autogluon|djl|stabilityai|sagemaker|xgboost|sagemaker-\w+|linear-learner|kmeans)[\w.-]*[:@]"
)
"""Names of images that have a program of AWS, and none of the project."""
_DOCKER_FOLDERS = ("", "docker", "container", "src", "code")


def _own_image(job: JobDefinition, workspace: Workspace) -> list[JobDefinition]:
    """A job without an entry point whose image the only Dockerfile next to the launcher builds: what that starts.

    SageMaker starts the container with the argument `train`, which replaces CMD.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-dockerfile.html.
    """
    image_name = job.image.text or job.image.suffix
    # `f"{account}.dkr.ecr.{region}.amazonaws.com/{name}:latest"` ends in what is known of it.
    is_in_ecr = (
        ".dkr.ecr" in (job.image.text or job.image.prefix + job.image.suffix)
        or ".amazonaws.com/" in job.image.suffix
    )
    if job.kind != "training" or not is_in_ecr:
        return [job]
    if _IMAGES_OF_AWS.search(image_name) or job.source not in ("sagemaker-v2", "sagemaker-v3", "boto3"):
        return [job]
    beside = job.span.unit.absolute.parent
    recipe = _only_dockerfile([beside], workspace)
    if recipe is None:
        return [job]
    made = image(recipe.source)
    program = made.program
    job = replace(job, recipe=recipe)
    command = f"python {program}" if program else f"{made.entry} train" if made.entry else None
    starts = list(read_text(command)) if command is not None else [Start("python", "/opt/program/train")]
    folders = [recipe.absolute.parent, beside]
    passed = [replace(start, arguments=(ALL_ARGUMENTS,)) for start in starts] if program else starts
    followed = Follower(workspace, folders, _copied_by(recipe)).follow(passed)
    return _with_scripts(job, followed, workspace) or [job]


def _linked_container(job: JobDefinition, workspace: Workspace) -> list[JobDefinition]:
    """A container's job for each script that it runs; the job itself if none is found."""
    recipe = built_by(job, workspace)
    if recipe is not None or job.source != "kubernetes" or public_image_name(job):
        return _in_image(job, recipe, workspace)
    # A manifest names an image in a registry; the only Dockerfile of the project is the one that builds it.
    only = only_recipe(job, workspace)
    found = _in_image(job, only, workspace)
    is_certain = found[0].script is not None or job.command.is_absent
    return found if is_certain else _in_image(job, None, workspace)


def _in_image(job: JobDefinition, recipe: Unit | None, workspace: Workspace) -> list[JobDefinition]:
    job = replace(job, recipe=recipe)
    made = image(recipe.source) if recipe is not None else None
    if made is not None and recipe is not None:
        job = _with_entry_point(job, recipe) if job.source != "kubernetes" else job
        if job.command.is_absent and made.command is not None:
            job = replace(job, command=known(made.command))
    if job.command.is_absent:
        return [job]
    starts = _starts(job)
    if isinstance(starts, LinkEnd):
        return [job]
    workdir = job.argument("workdir").text or job.argument("working_dir").text or ""
    folder = workdir if "$" not in workdir else ""
    placed = [replace(start, folder=start.folder or folder) for start in starts]
    folders = launch_folders(job.span.unit.absolute)
    if recipe is not None:
        folders = list(dict.fromkeys([recipe.absolute.parent, *folders]))
    copied = _copied_by(recipe) if recipe is not None else None

    def sources(path: str) -> list[Path] | None:
        found = copied(path) if copied is not None else None
        if found is not None and any(workspace.exists(candidate) for candidate in found):
            return found
        # A folder of the project that is mounted, or copied by what is not seen: `/workspace/src/train.py`.
        parts = Path(path).parts
        inner = [Path(*parts[index:]) for index in range(2, len(parts))] if path.startswith("/") else []
        mounted = [base / rest for rest in inner for base in folders]
        return mounted if any(workspace.exists(candidate) for candidate in mounted) else None

    followed = Follower(workspace, folders, sources).follow(placed)
    return [_under_operator(linked) for linked in _with_scripts(job, followed, workspace)] or [job]


def _under_operator(job: JobDefinition) -> JobDefinition:
    """A pod's job without the defaults of torchrun, which Kubeflow's operator sets by PET_NPROC_PER_NODE and the like."""
    start = job.start
    if start is None or start.launcher is None or job.argument("kind").text not in ("PyTorchJob", "TrainJob"):
        return job
    launcher = replace(start.launcher, hosts=None, is_known=False)
    if launcher.processes == 1:
        launcher = replace(launcher, processes=None)
    return replace(job, start=replace(start, launcher=launcher))


_PROGRAMS = re.compile(r"(?:.*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|uv|poetry|conda|bash|sh)")


def _with_entry_point(job: JobDefinition, recipe: Unit) -> JobDefinition:
    """A container's job with the ENTRYPOINT of its image before its command, if the container has none of its own."""
    entry = image(recipe.source).entry
    words = shlex.split(entry) if entry else []
    if not words or not job.argument("EntryPoint").is_absent or not _PROGRAMS.fullmatch(words[0]):
        return job
    return replace(job, command=known((*map(known, words), *(job.command.items or ())), job.command.span))


def _packaged_from(job: JobDefinition, folders: list[Path], workspace: Workspace) -> list[Path]:
    """The only folder of the project from which the archive of a job's source in S3 can have been made.

    A template names the script and the archive, and not the folder: `terraform/` beside `model/train.py`.
    """
    name = job.entry_point.text
    if name is None or job.hyperparameters.at("sagemaker_submit_directory").is_absent:
        return []
    if any(workspace.exists(base / name) for base in folders):
        return []
    found = [
        path.parent
        for base in folders
        for path in base.glob(f"*/{name}")
        if not path.parent.name.startswith(".")
    ]
    return found if len(found) == 1 else []


def _only_dockerfile(folders: list[Path], workspace: Workspace) -> Unit | None:
    """The only Dockerfile of some folders and of their usual subfolders."""
    found = [base / folder / "Dockerfile" for base in folders for folder in _DOCKER_FOLDERS]
    units = [unit for path in found if (unit := workspace.text_file(path)) is not None]
    return units[0] if len(units) == 1 else None


def _copied_by(recipe: Unit) -> Callable[[str], list[Path] | None]:
    """Finds the source of a path in an image, by the COPY instructions of its Dockerfile."""
    made = image(recipe.source)

    def sources(path: str) -> list[Path] | None:
        names = made.sources(path)
        return [base / name for base in launch_folders(recipe.absolute) for name in names] or None

    return sources


def _is_found(job: JobDefinition, folders: list[Path], workspace: Workspace) -> bool | None:
    """Whether the entry point exists; None if it may be in a folder that is not seen here."""
    entry = job.entry_point.text if job.entry_point.is_known else None
    if entry is None or "://" in entry or not job.command.is_absent:
        return None
    if any(workspace.exists(base / entry) for base in folders):
        return True
    # A relative path is certainly wrong only if its folder exists.
    seen = any(base != job.span.unit.absolute.parent and workspace.exists(base) for base in folders)
    return False if seen or not job.source_dir.is_sure else None


def _partly_known(value: Value) -> str | None:
    """The text of a value, with `$` for what is unknown inside it; None if nothing of it is known."""
    if value.is_known:
        return str(value.value) if isinstance(value.value, (str, int, float)) else None
    if value.prefix or value.suffix:
        return f"{value.prefix}{_source(value)}{value.suffix}"
    return None


def _source(value: Value) -> str:
    """An unknown value as a word of a shell: `$(args.script)`."""
    span = value.span
    if span is None or span.line != span.end_line:
        return "$(...)"
    return f"$({span.text[span.column - 1 : span.end_column - 1]})"


def _source_folder(job: JobDefinition) -> list[Path] | None:
    """The folders in which the entry point may be."""
    bases = launch_folders(job.span.unit.absolute)
    source: Value = job.source_dir
    if source.is_absent or (source.is_known and source.value is None):
        return bases
    if source.text is None or "://" in source.text:
        return None
    return [base / source.text for base in bases]
