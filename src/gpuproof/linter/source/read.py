"""Reads files into units, by file name and content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuproof.linter.internal_errors import ErrorLog
from gpuproof.linter.source.command_files import SHELL, CommandKind, command_kind, is_compose
from gpuproof.linter.source.decode import Unreadable, decode, read_bytes
from gpuproof.linter.source.span import Unit, UnitKind, absolute

MAX_REQUEST_BYTES = 1_000_000
"""Bytes; a larger JSON or YAML file that contains an instance type is a price list, not a request."""
MAX_ITEMS = 50_000
"""Items in the lists of a template or request."""
_PYTHON_SUFFIXES = ("py", "pyi", "pyw")
_TEMPLATE_SUFFIXES = ("yaml", "yml", "json", "template", "tf")
_SHEBANG = re.compile(rb"#!.*\bpython")
"""The first line of a Python program whose name has another suffix, or none."""
_MANIFEST = re.compile(rb"^[ \t]*\"?apiVersion\"?[ \t]*:", re.MULTILINE)
_HELM = re.compile(rb"\{\{-|\{\{ ?[.$]|\{\{ ?(include|template|tpl|toYaml|if|range|with|end)\b")
"""Template actions of Helm and of Go, which only Helm turns into a manifest."""
JOB_FILE_NAMES = ("gpuproof.yaml", "gpuproof.yml")
"""A copy of `gpuproof.jobs.load.FILE_NAMES`: importing it would import pydantic, 60 ms that scripts do not need."""


@dataclass(frozen=True)
class UnreadableFile:
    """A file that cannot be read as the kind of file that its name indicates.

    Args:
        path: as the user wrote it.
        reason: why, as a clause.
        line: the line of the problem, from 1.
        broken: whether Python cannot read it either.
        is_source: False for a file whose type is not checked, such as C.
    """

    path: str
    reason: str
    line: int = 1
    broken: bool = False
    is_source: bool = True


def read_units(
    paths: Iterable[str], log: ErrorLog | None = None, texts: Mapping[Path, str] | None = None
) -> tuple[list[Unit], list[UnreadableFile]]:
    """Read files into units; files that cannot be read are returned separately.

    Args:
        log: gets the exceptions in readers; they are raised if None.
        texts: texts in place of the files' content, by absolute path.
    """
    units: list[Unit] = []
    failures: list[UnreadableFile] = []
    for path in paths:
        try:
            text = texts.get(absolute(path)) if texts else None
            units += read_file(path, text.encode() if text is not None else None)
        except Unreadable as error:
            failures.append(UnreadableFile(path, error.reason, error.line, error.broken, error.is_source))
        except Exception as error:
            if log is None:
                raise
            log.add(error, path, task="reading the file")
    return units, failures


def read_file(path: str, raw: bytes | None = None) -> list[Unit]:
    """Read the units of one file; empty if nothing in it is checked.

    Args:
        raw: its content, if it is known; the file is not read then.

    Raises:
        Unreadable: it cannot be read as source.
    """
    name = path.rpartition("/")[2]
    suffix = name.rpartition(".")[2].lower()
    if suffix == "toml":
        return []
    if raw is None:
        try:
            raw = read_bytes(Path(path))
        except Unreadable:
            # A .json or .yaml file may be data of any size.
            if suffix in _TEMPLATE_SUFFIXES and name not in JOB_FILE_NAMES:
                return []
            raise
    if suffix == "ipynb":
        from gpuproof.linter.source import notebook  # imports json and re, only for notebooks

        return notebook.read(path, raw)
    if suffix in _TEMPLATE_SUFFIXES:
        return _template(path, name, suffix, raw)
    if suffix == "md":
        from gpuproof.linter.source import markdown

        return markdown.read(path, decode(raw)[0])
    if suffix == "txt":
        return [Unit(path, decode(raw)[0], "requirements")]
    if suffix == "ts" and b"aws-cdk" in raw:
        return [Unit(path, decode(raw)[0], "typescript")]
    kind = command_kind(name) or ("shell" if SHELL.match(raw) else None)
    if kind is not None and not _SHEBANG.match(raw):
        return _commands(path, raw, kind)
    if suffix not in _PYTHON_SUFFIXES and not _SHEBANG.match(raw):
        raise Unreadable("its type is not supported", broken=False, is_source=False)
    text, encoding = decode(raw)
    return [Unit(path, text, "python", encoding=encoding)]


def _commands(path: str, raw: bytes, kind: CommandKind) -> list[Unit]:
    try:
        return [Unit(path, decode(raw)[0], kind)]
    except Unreadable:
        return []  # a shell reads bytes of any encoding


def _template(path: str, name: str, suffix: str, raw: bytes) -> list[Unit]:
    if name in JOB_FILE_NAMES:
        return [Unit(path, decode(raw)[0], "gpuproof")]
    kind = "compose" if is_compose(name) else _kind_of_template(raw, is_terraform=suffix == "tf")
    if kind is not None and _is_large(raw):
        if b"AWSTemplateFormatVersion" in raw or suffix == "tf":
            raise Unreadable("it is too large for a template", broken=False)
        return []
    return [Unit(path, decode(raw)[0], kind)] if kind is not None else []


def _is_large(raw: bytes) -> bool:
    """Whether a file is data rather than a template: CloudFormation itself takes at most one megabyte."""
    return len(raw) > MAX_REQUEST_BYTES or raw.count(b",") + raw.count(b"\n- ") > MAX_ITEMS


def _kind_of_template(raw: bytes, *, is_terraform: bool) -> UnitKind | None:
    if is_terraform:
        words = (
            b"aws_sagemaker_",
            b"aws_instance",
            b"aws_iam_",
            b"aws_launch_",
            b"aws_spot_instance_request",
            b"aws_batch_",
            b"aws_eks_node_group",
            b"aws_ecs_task_definition",
            b"aws_sfn_state_machine",
        )
        return "terraform" if any(word in raw for word in words) else None
    if b"AWS::" in raw or b"AWSTemplateFormatVersion" in raw:
        return "cloudformation"
    if _MANIFEST.search(raw) and b"kind" in raw:
        return None if len(raw) > MAX_REQUEST_BYTES or _HELM.search(raw) else "kubernetes"
    if b"train_micro_batch_size_per_gpu" in raw or b"zero_optimization" in raw:
        return "deepspeed" if len(raw) < MAX_REQUEST_BYTES else None
    # The input of `aws sagemaker create-training-job --cli-input-json`.
    is_request = (
        any(word in raw for word in (b"InstanceType", b"ProductionVariants")) and len(raw) < MAX_REQUEST_BYTES
    )
    is_machine = b"StartAt" in raw and b"states:::" in raw
    asks_for_gpus = b"GPU" in raw and any(
        word in raw for word in (b"containerProperties", b"containerDefinitions")
    )
    is_small = len(raw) < MAX_REQUEST_BYTES
    return "request" if is_request or (is_small and (is_machine or asks_for_gpus)) else None
