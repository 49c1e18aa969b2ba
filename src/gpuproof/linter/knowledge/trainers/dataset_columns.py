"""Columns of datasets on their way to a model: what collators and transforms read, and what models take."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.flow.call_targets import Definition, find_definition, find_method
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode

RAW_COLUMNS = frozenset(
    [
        "image",
        "images",
        "img",
        "image_path",
        "text",
        "texts",
        "audio",
        "speech",
        "question",
        "questions",
        "answer",
        "answers",
        "context",
        "sentence",
        "sentences",
        "messages",
        "prompt",
        "completion",
        "conversation",
        "conversations",
        "caption",
        "captions",
        "file",
        "path",
        "file_name",
        "filename",
        "transcription",
        "transcript",
        "document",
        "summary",
        "article",
        "instruction",
        "response",
        "dialog",
        "dialogue",
        "video",
        "title",
        "body",
        "review",
    ]
)
"""Columns of data that a processor or tokenizer still has to read; the `forward` of no common model takes them.

Read from the signatures of transformers 4.38, 4.57 and 5.24; only LayoutLMv2 takes `image`.
"""


def read_columns(module: Module, node: ast.expr | None) -> set[str]:
    """The columns that a function reads of its examples: `example["image"]`; empty if the function is unknown.

    Args:
        node: the function as an expression: a name, an attribute, a lambda, or an object with `__call__`.
    """
    function = find_function(module, node)
    if function is None or not isinstance(function.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return set()
    return set(_columns(function.node))


def find_function(module: Module, node: ast.expr | None) -> Definition | None:
    """The project's function that an expression names, or `__call__` of the object that it creates."""
    if node is None:
        return None
    made = module.origin(node)
    if isinstance(made, ast.Call):
        owner = find_definition(module, made.func)
        if owner is not None and isinstance(owner.node, ast.ClassDef):
            return find_method(owner, "__call__")
        return None
    return find_definition(module, made if isinstance(made, (ast.Name, ast.Attribute)) else node)


def transforms(module: Module) -> list[Call]:
    """The calls that decode examples when they are read: `dataset.with_transform(function)`."""
    return [
        call for call in calls_named(module, "with_transform", "set_transform") if call.receiver is not None
    ]


def _columns(function: FunctionNode) -> Iterator[str]:
    """The texts by which a function subscripts its parameter, or the examples in it."""
    parameters = [argument.arg for argument in function.args.args if argument.arg not in ("self", "cls")]
    if not parameters:
        return
    examples = {parameters[0]}
    for node in ast.walk(function):
        if isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.target, ast.Name):
            iterated = node.iter
            if isinstance(iterated, ast.Name) and iterated.id == parameters[0]:
                examples.add(node.target.id)
    for node in ast.walk(function):
        match node:
            case ast.Subscript(
                value=ast.Name(id=name), slice=ast.Constant(value=str(column)), ctx=ast.Load()
            ):
                if name in examples and not _is_stored(function, name, column):
                    yield column
            case _:
                continue


def _is_stored(function: FunctionNode, name: str, column: str) -> bool:
    """Whether a function writes a column itself."""
    return any(
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        and isinstance(node.slice, ast.Constant)
        and node.slice.value == column
        for node in ast.walk(function)
    )
