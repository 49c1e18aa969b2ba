"""Detects a job's framework: from the job, or from the imports and requirements of its source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gpuproof.errors import InvalidJob
from gpuproof.jobs.models.script_jobs import Job
from gpuproof.jobs.source.tree import SourceTree

PYTORCH = "pytorch"
TENSORFLOW = "tensorflow"

_OF_MODULE = {
    "torch": PYTORCH,
    "torchvision": PYTORCH,
    "torchaudio": PYTORCH,
    "lightning": PYTORCH,
    "pytorch_lightning": PYTORCH,
    "accelerate": PYTORCH,
    "timm": PYTORCH,
    "tensorflow": TENSORFLOW,
    "tf_keras": TENSORFLOW,
    "tensorflow_datasets": TENSORFLOW,
}
"""The AWS image that a module needs. Keras runs on both: its backend decides."""

_IMAGES = {"keras": TENSORFLOW, "torch": PYTORCH, "tf": TENSORFLOW}
"""The AWS image for a framework whose image has another name."""

_BACKENDS = {"torch": PYTORCH, "tensorflow": TENSORFLOW}
_IMPORT = re.compile(rb"^[ \t]*(?:import|from)[ \t]+([\w., \t]+)", re.MULTILINE)
_PIN = re.compile(
    r"^(torch|tensorflow(?:[-_]cpu|[-_]gpu)?)(?:\[[^\]]*\])?\s*==\s*(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE
)
_OWN_IMAGE = "--image ACCOUNT.dkr.ecr…"
_MOST_BYTES = 1 << 20
_MOST_FILES = 500


@dataclass(frozen=True)
class Framework:
    """The framework that the image must contain.

    Args:
        name: `pytorch`, `tensorflow`, `huggingface`, or another name from the job.
        version: such as `2.8` or `2.8.0`, for `huggingface` that of Transformers; None for the newest version that AWS still patches.
        because: the reason for the choice, for the user.
        pinned: whether the job itself sets the version, so that no other is acceptable.
    """

    name: str
    version: str | None
    because: str
    pinned: bool = False


def framework_of(job: Job, tree: SourceTree, own_image: str = _OWN_IMAGE) -> Framework:
    """The framework that the job names, or else the one that its source imports.

    Args:
        own_image: how to use another image, for the remedy.

    Raises:
        InvalidJob: the job names none, and its source imports none or several.
    """
    found = find_framework(job, tree, own_image)
    if found is None:
        raise _undecided(job, "imports neither PyTorch nor TensorFlow", own_image)
    return found


def find_framework(job: Job, tree: SourceTree, own_image: str = _OWN_IMAGE) -> Framework | None:
    """The same; None if the job names no framework and its source imports none.

    Raises:
        InvalidJob: the job names none, and its source imports several.
    """
    if job.framework is not None:
        name = _image_of(job)
        version = job.framework_version if name == job.framework or job.framework in ("torch", "tf") else None
        return Framework(name, version, f"framework: {job.framework}", pinned=version is not None)
    found, where = _imported(job, tree)
    if not found:
        return None
    if len(found) > 1:
        raise _undecided(job, f"imports {' and '.join(sorted(found))}", own_image)
    name = next(iter(found))
    if job.framework_version is not None:
        return Framework(name, job.framework_version, where, pinned=True)
    pin = _pinned(tree).get(name)
    return Framework(name, pin, f"{where}, requirements.txt pins {pin}" if pin else where)


def _undecided(job: Job, imports: str, own_image: str) -> InvalidJob:
    return InvalidJob(
        f"'{job.name}' sets neither framework nor image, and its source {imports}: "
        "GPUproof cannot choose an image.",
        remedy=f"--framework pytorch or --framework tensorflow, or use your own image: {own_image}",
    )


def _image_of(job: Job) -> str:
    name = job.framework or ""
    if name == "keras":
        return _BACKENDS.get(job.environment.get("KERAS_BACKEND", ""), TENSORFLOW)
    return _IMAGES.get(name, name)


def _imported(job: Job, tree: SourceTree) -> tuple[set[str], str]:
    """The frameworks that the script imports, or else all its modules; and the reason, for the user."""
    modules = _modules(tree.root / job.entry_point)
    if found := _frameworks(modules, job):
        return found, f"{job.entry_point} imports it"
    files = [file.relative for file in tree.files if file.relative.endswith(".py")][:_MOST_FILES]
    for name in files:
        modules |= _modules(tree.root / name)
    return _frameworks(modules, job), "the source imports it"


def _frameworks(modules: set[str], job: Job) -> set[str]:
    found = {_OF_MODULE[name] for name in modules if name in _OF_MODULE}
    if not found and "keras" in modules:
        return {_BACKENDS.get(job.environment.get("KERAS_BACKEND", ""), TENSORFLOW)}
    return found


def _modules(path: Path) -> set[str]:
    """Top-level names that a file imports; also names in texts that look like imports."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES)
    except OSError:
        return set()
    found: set[str] = set()
    for match in _IMPORT.finditer(text):
        statement = match[0].decode("utf-8", "replace").split()
        named = match[1].decode("utf-8", "replace")
        parts = [named.split()[0]] if statement[0] == "from" else named.split(",")
        found |= {part.split()[0].partition(".")[0] for part in parts if part.split()}
    return found


def _pinned(tree: SourceTree) -> dict[str, str]:
    try:
        lines = (tree.root / "requirements.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    matches = [match for line in lines if (match := _PIN.match(line.strip()))]
    return {PYTORCH if match[1].lower() == "torch" else TENSORFLOW: match[2] for match in matches}
