"""The job's script does not exist in the job's folder.

The SDK checks before it starts anything and raises `ValueError: No file named "train.py" was found in directory`; in
a pipeline this happens when the step is built. Paths are relative to the working directory, which is unknown here.
The rule therefore only reports scripts if `source_dir` exists and does not contain the file, or if exactly one other
folder next to the launcher contains it.

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

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", source_dir="src", instance_count=1, instance_type="ml.g5.xlarge")
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

Quiet: a launcher that was copied without its scripts

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", source_dir="code", instance_count=1, instance_type="ml.g5.xlarge")

Quiet: a notebook that writes the file

    # file: launch.ipynb
    from sagemaker.pytorch import PyTorch

    open("code/train.py", "w").write("print(1)")
    PyTorch(entry_point="train.py", source_dir="code", instance_count=1, instance_type="ml.g5.xlarge")
    # file: code/other.py
    print("training")
"""

import re
from pathlib import Path, PurePosixPath

from gpuproof.check.analysis.call import all_calls
from gpuproof.check.analysis.usage import find_uses, uses
from gpuproof.check.jobs.definition import JobDefinition
from gpuproof.check.project import Project
from gpuproof.check.rule import Hits, Rule
from gpuproof.findings import Severity

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
    if job.kind == "processing" or not job.argument("git_config").is_absent:
        return
    if not job.source_dir.is_absent and (not job.source_dir.is_known or "://" in str(job.source_dir.value)):
        return
    name = PurePosixPath(entry.text)
    if name.is_absolute() or _may_be_created(job, project, entry.text, name.name):
        return
    here = job.span.unit.absolute.parent
    source = job.source_dir.text if job.source_dir.is_known else None
    folder = here / source if source else None
    if any((above / (source or "") / name).exists() for above in list(here.parents)[:4]):
        return  # relative to a parent folder, in which the launcher may be started
    others = _folders_with(here, name)
    if folder is not None and folder != here and any(folder.glob("*.py")):
        where = f"`{source}`"
    elif len(others) == 1:
        where = f"`{source}`" if source else f"the folder of `{job.span.unit.absolute.name}`"
    else:
        return
    yield rule.hit(
        job.where(entry),
        f"`{entry.text}` does not exist in {where}: the SDK raises ValueError before anything starts.",
        remedy=f'It is in {others[0]}/: set source_dir="{others[0]}".'
        if len(others) == 1
        else "Correct entry_point, or move the script there.",
    )


def _may_be_created(job: JobDefinition, project: Project, entry: str, name: str) -> bool:
    """Whether code or a shell command of the launcher may create the script, or names it for something else than jobs."""
    module = job.module
    if module is None:
        return False
    run = [
        call.node for call in all_calls(module) if (call.name or "").startswith(("os.system", "subprocess."))
    ]
    commands = [*module.unit.magic_lines, *(one.text for one in find_uses(module, "string", within=run))]
    if uses(module, _FETCHES, "call") or any(_COMMANDS.search(one) for one in commands):
        return True
    named = re.compile(rf"(^|[/\s]){re.escape(name)}\b")
    mentions = [
        one
        for one in (*(use.text for use in find_uses(module, "string")), *module.unit.magic_lines)
        if named.search(one)
    ]
    return len(mentions) > _job_mentions(project, job, entry)


def _job_mentions(project: Project, job: JobDefinition, entry: str) -> int:
    """How often jobs in the same file name the script; any other mention may be code that writes it."""
    return (
        sum(
            1
            for one in project.jobs
            if one.span.unit is job.span.unit
            and one.entry_point.text == entry
            and one.kind in ("training", "processing")
        )
        or 1
    )


def _folders_with(here: Path, name: PurePosixPath) -> list[str]:
    """Folders next to the launcher that contain the script."""
    return sorted(
        one.name
        for one in here.iterdir()
        if one.is_dir() and not one.name.startswith(".") and (one / name).is_file()
    )
