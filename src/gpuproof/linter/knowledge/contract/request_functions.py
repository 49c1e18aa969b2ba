"""Functions that run for every request: of SageMaker's serving toolkits, web frameworks, Triton, TorchServe and LitServe.

Sources: https://fastapi.tiangolo.com/reference/apirouter/, https://flask.palletsprojects.com/en/stable/api/,
https://github.com/triton-inference-server/python_backend, https://pytorch.org/serve/custom_service.html,
https://lightning.ai/docs/litserve/api-reference/litapi. 2026-11-29.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.knowledge.contract.inference_handlers import is_handler, positional_parameters

_FRAMEWORKS = ("fastapi", "flask", "starlette", "litestar", "sanic")
WORDS = ("predict_fn", "transform_fn", "TritonPythonModel", "BaseHandler", "LitAPI", *_FRAMEWORKS)
"""A module without any of these words has no such function."""

_ROUTES = frozenset({"get", "post", "put", "patch", "route", "api_route", "websocket"})
"""Decorators of functions that handle requests: `@app.post("/invocations")`."""
_OBJECTS = {
    "TritonPythonModel": frozenset({"execute"}),
    "BaseHandler": frozenset({"handle", "preprocess", "inference", "postprocess"}),
    "LitAPI": frozenset({"decode_request", "predict", "encode_response"}),
}
"""Classes of model servers, by their name or that of their base, and the methods that run for every request."""


class RequestFunction(NamedTuple):
    """A function that runs for every request.

    Attributes:
        data: the parameters that hold the request.
    """

    node: FunctionNode
    data: frozenset[str]


def request_functions(module: Module) -> Iterator[RequestFunction]:
    """The functions of a module that a server certainly runs for every request."""
    if is_handler(module):
        for name, position in (("predict_fn", 0), ("transform_fn", 1)):
            function = module.functions.get(name)
            if function is not None:
                names = [argument.arg for argument in positional_parameters(function)]
                yield RequestFunction(function, frozenset(names[position : position + 1]))
    if module.imports(*_FRAMEWORKS):
        for function in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef):
            if any(_is_route(decorator) for decorator in function.decorator_list):
                yield RequestFunction(function, parameters(function))
    for owner in module.classes.values():
        methods = _methods_of_server(module, owner)
        for statement in owner.body:
            if isinstance(statement, ast.FunctionDef) and statement.name in methods:
                yield RequestFunction(statement, parameters(statement))


def parameters(function: FunctionNode) -> frozenset[str]:
    """The names of all parameters of a function, without `self`."""
    arguments = function.args
    found = [*positional_parameters(function), *arguments.kwonlyargs]
    found += [variadic for variadic in (arguments.vararg, arguments.kwarg) if variadic is not None]
    return frozenset(argument.arg for argument in found) - {"self", "cls"}


def _is_route(decorator: ast.expr) -> bool:
    call = decorator.func if isinstance(decorator, ast.Call) else None
    return isinstance(call, ast.Attribute) and call.attr in _ROUTES


def _methods_of_server(module: Module, owner: ast.ClassDef) -> frozenset[str]:
    if owner.name in _OBJECTS:
        return _OBJECTS[owner.name]
    bases = [module.text(base).rpartition(".")[2] for base in owner.bases]
    return next((_OBJECTS[base] for base in bases if base in _OBJECTS), frozenset[str]())
