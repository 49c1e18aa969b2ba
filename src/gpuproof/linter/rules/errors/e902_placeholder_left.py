"""A placeholder was not replaced: `...` instead of a value, or a bucket named `your-bucket`.

`...` is a valid Python object, so the error comes late: `compile(...)` fails inside Keras, `fit(...)` inside the SDK,
and a model that is `...` at its first call. AWS rejects a placeholder in a name or address later still, after the
upload. The first kind is an error; the second is a note, because an example may keep it on purpose.

Bad:

    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(...)  # <-

Bad:

    import torch

    model = ...  # <-
    model.eval()

Bad:

    import boto3

    boto3.client("s3").download_file("<your-bucket>", "model.tar.gz", "model.tar.gz")  # <-

Good:

    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")

Quiet: a slice, a type, and a required field

    import numpy as np
    import torch
    from pydantic import BaseModel, Field
    from typing import Callable, Tuple

    class Request(BaseModel):
        text: str = Field(...)
        shape: Tuple[int, ...] = ()

    first = torch.ones(2, 3)[..., 0]

Quiet: a function body that is left open

    import torch
    from typing import Protocol

    class Encoder(Protocol):
        def encode(self, x: torch.Tensor) -> torch.Tensor: ...

Quiet: a help text

    import argparse
    import boto3

    parser = argparse.ArgumentParser()
    parser.add_argument("--bucket", help="s3://your-bucket/prefix")
    if parser.parse_args().bucket == "your-bucket":
        raise SystemExit("replace your-bucket first")
"""

import ast
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.placeholders import find_placeholder, is_display_text
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("E902", "placeholder-left", Severity.ERROR, needs=("...", "our", "OUR"))

_LIBRARIES = ("torch", "tensorflow", "keras", "sagemaker", "boto3")
_METHODS = frozenset({"compile", "fit", "evaluate", "deploy", "train_on_batch"})
_KINDS = (TypeKind.KERAS_MODEL, TypeKind.ESTIMATOR, TypeKind.SDK_MODEL, TypeKind.MODULE)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports(*_LIBRARIES) or is_test(module):
        return
    has_ellipsis = any(node.value is Ellipsis for node in module.nodes(ast.Constant))
    for node, text in (*_open_calls(module), *_open_names(module)) if has_ellipsis else ():
        yield rule.hit(
            module.span(node),
            f"`{text}` is still a placeholder: `...` is passed on unchanged and fails later.",
            remedy="Replace it with the real value.",
        )
    for node, text in _placeholder_texts(module):
        yield rule.hit(
            module.span(node),
            f"`{text}` is still a placeholder.",
            remedy="Replace it with your own value.",
            severity=Severity.NOTE,
        )


def _open_calls(module: Module) -> Iterator[tuple[ast.AST, str]]:
    for call in all_calls(module):
        if not any(_is_open(keyword) for keyword in (*call.node.args, *call.keywords.values())):
            continue
        of_library = (call.name or "").partition(".")[0] in _LIBRARIES
        on_model = (
            call.receiver is not None
            and call.method in _METHODS
            and type_of(module, call.receiver).kind in _KINDS
        )
        if of_library or on_model:
            yield call.node, module.excerpt(call.node)


def _open_names(module: Module) -> Iterator[tuple[ast.AST, str]]:
    for node in module.nodes(ast.Assign):
        if not _is_open(node.value) or not isinstance(node.targets[0], ast.Name):
            continue
        if isinstance(module.parent(node), ast.ClassDef):
            continue
        name = node.targets[0].id
        uses = [call.receiver if call.receiver is not None else call.node.func for call in all_calls(module)]
        named = [use for use in uses if isinstance(use, ast.Name) and use.id == name]
        if any([each.value for each in module.reaching(use)] == [node.value] for use in named):
            yield node, module.text(node)


def _placeholder_texts(module: Module) -> Iterator[tuple[ast.AST, str]]:
    for node in module.nodes(ast.Constant):
        text = node.value
        if not isinstance(text, str) or len(text) > 200 or "\n" in text or is_display_text(module, node):
            continue
        found = find_placeholder(text)
        if (
            found is not None
            and found.upper() != "TODO"
            and (" " not in text or found.strip() == text.strip())
        ):
            yield node, found


def _is_open(node: ast.expr) -> bool:
    if isinstance(node, ast.List) and len(node.elts) == 1:
        node = node.elts[0]
    return isinstance(node, ast.Constant) and node.value is Ellipsis
