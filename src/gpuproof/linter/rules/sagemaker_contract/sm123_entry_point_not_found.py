"""The job's script or its source folder does not exist.

The SDK checks before it starts anything and raises `ValueError: No file named "train.py" was found in directory`; in
a pipeline this happens when the step is built. Paths are resolved from the launcher's folder and those above it, up to
the root of the repository, whatever the working directory is. A missing script is reported if a similar name
exists where it should be, if its folder contains other scripts, or if exactly one other folder next to the launcher
contains it. A missing `source_dir` is an error if the script or a folder of a similar name is elsewhere.

Bad: the folder exists, the file does not

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py",  # <-
        source_dir="code",
        instance_count=1,
        instance_type="ml.g5.xlarge",
    )
    # file: code/trainer.py
    print("training")

Bad: the file is in another folder

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="fit_model.py", source_dir="code", instance_count=1, instance_type="ml.g5.xlarge")  # <-
    # file: src/fit_model.py
    print("training")

Bad: a misspelt script

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="trian.py", instance_count=1, instance_type="ml.g5.xlarge")  # <-
    # file: train.py
    print("training")

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", source_dir="src", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
    )
    # file: src/train.py
    print("training")

Quiet: the folder is in a repository or on S3

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    git = {"repo": "https://github.com/someone/models.git", "branch": "main"}
    PyTorch(entry_point="train.py", source_dir="code", git_config=git, instance_type="ml.g5.xlarge")
    PyTorch(entry_point="train.py", source_dir="s3://bucket/code.tar.gz", instance_type="ml.g5.xlarge")
    # file: code/other.py
    print("training")

Quiet: a launcher that was copied without its script

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge")

Quiet: a launcher in a folder below the script's

    # file: train.py
    print("training")
    # file: tools/launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge")

Quiet: a notebook that writes the file

    # file: launch.ipynb
    from sagemaker.pytorch import PyTorch

    open("code/train.py", "w").write("print(1)")
    PyTorch(entry_point="train.py", source_dir="code", instance_count=1, instance_type="ml.g5.xlarge")
    # file: code/other.py
    print("training")
"""

import re
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.usage import find_uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.project_root import launch_folders

rule = Rule("SM123", "entry-point-not-found", Severity.ERROR)

_FETCHES = re.compile(r"(^|\.)(urlretrieve|copytree|copyfile|copy2?|move|download_file|clone_from)$")
_COMMANDS = re.compile(
    r"(^|[!&|;]\s*)\s*(sudo\s+)?(git clone|wget|curl|cp|mv|cat|aws s3)\s|^\s*%%writefile\s.*[${]"
)
"""Calls and shell commands that may create the script."""


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    entry = job.entry_point
    if job.script_found is True or not entry.is_known or entry.text is None or not entry.text.endswith(".py"):
        return
    if job.source not in ("sagemaker-v2", "sagemaker-v3") or job.span.unit.kind == "markdown":
        return
    if any(not made.argument("git_config").is_unset for made in (job, job.model) if made is not None):
        return
    if not job.source_dir.is_absent and (not job.source_dir.is_known or "://" in str(job.source_dir.value)):
        return
    name = PurePosixPath(entry.text)
    if "://" in entry.text or name.is_absolute() or _may_be_created(job, project, entry.text, name.name):
        return
    found = _missing(job, name)
    if found is None:
        return
    missing, where, remedy, severity = found
    yield rule.hit(
        job.where(job.source_dir if missing == "source_dir" else entry),
        f"{where}: the SDK raises ValueError before anything starts.",
        remedy=remedy,
        severity=severity,
    )


class _Missing(NamedTuple):
    argument: str
    message: str
    remedy: str
    severity: Severity = Severity.ERROR


def _missing(job: JobDefinition, name: PurePosixPath) -> _Missing | None:
    """What certainly does not exist; None if the script may be in a folder that is not seen here."""
    launcher = job.span.unit.absolute
    here, bases = launcher.parent, launch_folders(launcher)
    source = job.source_dir.text if job.source_dir.is_known else None
    folders = [base / source for base in bases if (base / source).is_dir()] if source else bases
    if any((folder / name).exists() for folder in folders):
        return None
    others = _folders_with(here, name)
    if source and not folders:
        return _missing_folder(here, source, name, others)
    parents = [folder / name.parent for folder in folders]
    near = next(
        (found for parent in parents if (found := _near(name.name, _scripts(parent, launcher)))), None
    )
    place = f"`{source}`" if source else f"the folder of `{launcher.name}`"
    if near:
        return _Missing("entry_point", f"`{name}` does not exist in {place}", f"Did you mean {near}?")
    has_scripts = source is not None and any(_scripts(folder, launcher) for folder in folders)
    if len(others) == 1:
        is_path = job.kind == "processing" and source is None
        change = f'pass "{others[0]}/{name}"' if is_path else f'set source_dir="{others[0]}"'
        remedy = f"It is in {others[0]}/: {change}."
    elif has_scripts and folders != [here]:
        remedy = "Correct entry_point, or move the script there."
    else:
        return None
    return _Missing("entry_point", f"`{name}` does not exist in {place}", remedy)


def _missing_folder(here: Path, source: str, name: PurePosixPath, others: list[str]) -> _Missing:
    message = f"The folder `{source}` (source_dir) does not exist"
    near = _near(PurePosixPath(source).name, [path.name for path in here.iterdir() if path.is_dir()])
    if len(others) == 1:
        return _Missing("source_dir", message, f'`{name}` is in {others[0]}/: set source_dir="{others[0]}".')
    if near:
        return _Missing("source_dir", message, f"Did you mean {near}?")
    if (here / name).exists():
        remedy = f'`{name}` is next to the launcher: set source_dir=".", or remove it.'
        return _Missing("source_dir", message, remedy)
    # A launcher may have been copied without its scripts, but a repository is complete.
    in_repository = any((parent / ".git").exists() for parent in (here, *here.parents))
    severity = Severity.WARNING if in_repository else Severity.NOTE
    return _Missing("source_dir", message, "Correct source_dir, or create the folder.", severity)


def _scripts(folder: Path, launcher: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return [path.name for path in folder.glob("*.py") if path != launcher]


def _near(name: str, names: list[str]) -> str | None:
    found = get_close_matches(name, sorted(names), n=1, cutoff=0.75)
    return found[0] if found else None


def _may_be_created(job: JobDefinition, project: Project, entry: str, name: str) -> bool:
    """Whether code or a shell command of the launcher may create the script, or names it for something else than jobs."""
    module = job.module
    if module is None:
        return False
    run = [
        call.node for call in all_calls(module) if (call.name or "").startswith(("os.system", "subprocess."))
    ]
    commands = [*module.unit.magic_lines, *(use.text for use in find_uses(module, "string", within=run))]
    folder = (job.source_dir.text or "").strip("./").partition("/")[0] if job.source_dir.is_known else ""
    places = [place for place in (name, folder) if place]
    if any(_may_fetch(call, places) for call in all_calls(module)):
        return True
    if any(_may_bring(command, places) for command in commands):
        return True
    named = re.compile(rf"(^|[/\s]){re.escape(name)}\b")
    mentions = [
        line
        for line in (*(use.text for use in find_uses(module, "string")), *module.unit.magic_lines)
        if named.search(line)
    ]
    return len(mentions) > _job_mentions(project, job, entry)


def _may_fetch(call: Call, places: list[str]) -> bool:
    """Whether a call may create the script: a copy to a known path that is none of these places does not."""
    if not _FETCHES.search(call.name or call.method):
        return False
    given = [call.argument(position=index) for index in range(len(call.node.args))]
    given += [call.argument(keyword) for keyword in call.keywords]
    if len(given) < 2 or any(value.text is None for value in given):
        return True
    texts = [str(value.text) for value in given]
    return any(place in text for place in places for text in texts) or texts[-1] in (".", "./")


def _may_bring(command: str, places: list[str]) -> bool:
    """Whether a shell command may create the script: one about single files of other names does not."""
    found = _COMMANDS.search(command)
    if found is None:
        return False
    single = not re.search(
        r"git clone|[*${|]|--recursive|\bsync\b|\s-\w*[rR]\b|\.(zip|tar|tgz|gz)\b|>", command
    )
    return not single or any(place in command for place in places)


def _job_mentions(project: Project, job: JobDefinition, entry: str) -> int:
    """How often jobs in the same file name the script; any other mention may be code that writes it."""
    return (
        sum(
            1
            for candidate in project.jobs
            if candidate.span.unit is job.span.unit
            and candidate.entry_point.text == entry
            and candidate.kind in ("training", "processing")
        )
        or 1
    )


def _folders_with(here: Path, name: PurePosixPath) -> list[str]:
    """Folders next to the launcher that contain the script."""
    return sorted(
        path.name
        for path in here.iterdir()
        if path.is_dir() and not path.name.startswith(".") and (path / name).is_file()
    )
