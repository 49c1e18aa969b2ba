"""The folders that a processing job mounts, and their use in its script."""

from __future__ import annotations

import re

from gpuproof.linter.analysis.call import Call, all_calls, calls_named, local_function
from gpuproof.linter.analysis.container_env import PROCESSING_DIR
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses
from gpuproof.linter.jobs.definition import JobDefinition

OWN_MOUNTS = (
    f"{PROCESSING_DIR}/input/code",
    f"{PROCESSING_DIR}/input/entrypoint",
    f"{PROCESSING_DIR}/input/conf",
    f"{PROCESSING_DIR}/input/config",
    f"{PROCESSING_DIR}/input/jars",
    f"{PROCESSING_DIR}/input/py-files",
)
"""Folders that processors of SDK v2 mount themselves: the script, its folder, and files of Spark."""

_WRITES = re.compile(
    r"""
    save | dump | ^to_ | write | copy | move | download | extract | export | rename | replace$ | unpack | tofile | sink
    | ^put | ^fit | ^run$ | ^call$ | check_call | check_output | Popen | system | split | ^main | persist | store | cp$
    | unload | publish | create | render | plot | report
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Names of methods and functions that may write a file."""


def mounted_folders(job: JobDefinition) -> list[str] | None:
    """The folders of all inputs and outputs of a job; None if one of them is unknown."""
    if job.inputs is None or job.outputs is None:
        return None
    paths = [output.path for output in (*job.inputs, *job.outputs)]
    if not all(path.is_known and path.text for path in paths):
        return None
    return [str(path.text).rstrip("/") for path in paths]


def is_under(path: str, folder: str) -> bool:
    """Whether a path is a folder or inside it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def may_write(module: Module) -> bool:
    """Whether a module calls something that may write a file, by name; creating folders does not count."""
    return any(_writes(call) for call in all_calls(module))


def _writes(call: Call) -> bool:
    if call.method == "open":
        return may_open_to_write(call)
    return bool(_WRITES.search(call.method)) and local_function(call) is None


def may_open_to_write(call: Call) -> bool:
    """Whether a call of `open` may open a file to write."""
    mode = call.argument("mode", 1 if call.receiver is None else 0)
    return not mode.is_absent and (mode.text is None or bool(set(mode.text) & set("wax+")))


def mentions_folder(module: Module, folder: str) -> bool:
    """Whether a text in a module is a folder, a path in it, or the last part of its path: `output` in `base / "output"`."""
    last = folder.rstrip("/").rpartition("/")[2]
    texts = [use.text for use in find_uses(module, "string")]
    return any(folder in text or last in text.split("/") for text in texts)


def mentions_parent(module: Module, folder: str) -> bool:
    """Whether a text in a module is a parent of a folder, to which the script may add the rest."""
    parts = folder.rstrip("/").split("/")
    above = {"/".join(parts[:end]) for end in range(2, len(parts))}
    return any(use.text.rstrip("/") in above for use in find_uses(module, "string"))


def created_folders(module: Module) -> list[str]:
    """Folders that a module creates: `os.makedirs(path)`, `Path(path).mkdir()`."""
    calls = calls_named(module, "makedirs", "mkdir")
    paths = [
        (call.argument("name", 0) if call.name else evaluate(module, call.receiver)).text for call in calls
    ]
    return [path.rstrip("/") for path in paths if path]
