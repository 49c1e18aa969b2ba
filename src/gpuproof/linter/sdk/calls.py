"""Resolves calls to callables of the SageMaker SDK, and the SDK version that a file is written for."""

from __future__ import annotations

import ast
import re

from gpuproof.linter.analysis.call import Call, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.version_pins import pinned_versions
from gpuproof.linter.project import Project
from gpuproof.linter.sdk import Signature, v2, v3
from gpuproof.linter.source.edit import Edit
from gpuproof.linter.source.span import Span

MADE_BY = {
    "deploy": "sagemaker.base_predictor.Predictor",
    "transformer": "sagemaker.transformer.Transformer",
}
"""Classes that methods of v2 estimators and models return; predictors of all frameworks accept the same arguments."""

V3_FOLDERS = ("sagemaker.train", "sagemaker.core", "sagemaker.mlops")
"""Packages that exist only in v3."""

_VERSION = re.compile(r"(===?|~=|!=|<=|>=|<|>|\^)\s*v?(\d+)((?:\.\d+)*)")
_MAJORS = (1, 2, 3)


def sdk_major(module: Module, project: Project) -> int | None:
    """The major version of the SDK: from `--sagemaker-sdk`, a version pin, or imports that only v3 has; None if unknown."""
    if project.target.sagemaker_sdk is not None:
        return project.target.sagemaker_sdk
    pinned = pinned_major(pinned_versions(module.unit).get("sagemaker", ""))
    return pinned if pinned is not None else 3 if module.imports(*V3_FOLDERS) else None


def pinned_major(constraint: str) -> int | None:
    """The major version that a constraint such as `<3` installs; None if it allows both v3 and older versions."""
    allowed = set(_MAJORS)
    for operator, major, rest in _VERSION.findall(constraint):
        allowed &= _allowed(operator, int(major), rest)
    return max(allowed) if allowed and (3 not in allowed or len(allowed) == 1) else None


def sdk_path(call: Call) -> str | None:
    """The SDK callable of a call: `sagemaker.pytorch.PyTorch`, `sagemaker.pytorch.PyTorch.deploy`.

    Methods are resolved if the receiver is certainly an object of the SDK; None for other calls.
    """
    if call.name is not None:
        return call.name if call.name.startswith("sagemaker.") else None
    made = origin_call(call.module, call.receiver)
    if made is None or made.node is call.node:
        return None
    owner = sdk_class(made)
    return f"{owner}.{call.method}" if owner else None


def sdk_class(made: Call) -> str | None:
    """The SDK class that a call creates an object of."""
    if made.name is not None:
        is_class = made.name.startswith("sagemaker.") and made.name.rpartition(".")[2][:1].isupper()
        return made.name if is_class else None
    if made.method in MADE_BY and (behind := origin_call(made.module, made.receiver)) is not None:
        owner = sdk_class(behind)
        of_v2 = owner and v2().is_subclass(
            owner, "sagemaker.estimator.EstimatorBase", "sagemaker.model.Model"
        )
        return MADE_BY[made.method] if of_v2 else None
    return None


def sdk_signature(path: str, major: int | None) -> Signature | None:
    """The signature of a callable in the SDK version in use; if the version is unknown, that of v2 if it exists there."""
    if major == 1:
        return None
    if major == 3 or v2().has(path) is not True:
        return v3().signature(path)
    return v2().signature(path)


def given_parameters(call: Call, signature: Signature) -> set[str]:
    """The parameters that a call certainly passes, by keyword or by position."""
    by_place = signature.positional[: len(call.node.args)]
    return {*by_place, *call.arguments()}


def rename_keyword(call: Call, old: str, new: str) -> Edit | None:
    """Rename a keyword argument; None if it is not written there, or if the new name already is."""
    written = next((keyword for keyword in call.node.keywords if keyword.arg == old), None)
    if written is None or new in call.keywords:
        return None
    span = keyword_span(call, written)
    return Edit(span, new)


def keyword_span(call: Call, keyword: ast.keyword) -> Span:
    """The position of the name of a keyword argument."""
    whole = call.module.span(keyword)
    return Span(whole.unit, whole.line, whole.column, whole.line, whole.column + len(keyword.arg or ""))


def major_minor(version: str | None) -> tuple[int, int] | None:
    """Major and minor version of `2.1.0`; None if it does not start with a number."""
    match = re.match(r"(\d+)(?:\.(\d+))?", version or "")
    return (int(match.group(1)), int(match.group(2) or 0)) if match else None


def _allowed(operator: str, major: int, rest: str) -> set[int]:
    match operator:
        case "==" | "===" | "~=" | "^":
            return {major}
        case "<":
            return {known for known in _MAJORS if known < major or (known == major and rest.strip(".0"))}
        case "<=":
            return {known for known in _MAJORS if known <= major}
        case ">=" | ">":
            return {known for known in _MAJORS if known >= major}
        case _:
            return set(_MAJORS)
