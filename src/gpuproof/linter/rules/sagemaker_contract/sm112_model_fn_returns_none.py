"""`model_fn` returns the model to the toolkit; on a path that returns nothing, the endpoint serves with `None`.

The usual cause is an `except` that logs and continues. The container then reports that it is healthy, the endpoint
becomes available, and each request fails in `predict_fn` with "'NoneType' object is not callable", far from the
cause. An exception, in contrast, ends the deployment at once, with the reason in the log.

Bad:

    import torch

    def model_fn(model_dir):
        try:
            return torch.jit.load(model_dir + "/model.pt")
        except Exception as error:  # <-
            print("could not load", error)

Bad: None on purpose

    import torch

    def model_fn(model_dir):
        try:
            model = torch.jit.load(model_dir + "/model.pt")
        except Exception as error:
            print("could not load", error)
            return None  # <-
        return model

Bad: never returned

    def model_fn(model_dir):  # <-
        model = load(model_dir + "/model.pt")
        model.eval()

Good:

    import torch

    def model_fn(model_dir):
        try:
            return torch.jit.load(model_dir + "/model.pt")
        except Exception as error:
            print("could not load", error)
            raise

Quiet: the model is returned after the exception was handled

    import torch

    def model_fn(model_dir):
        try:
            model = torch.jit.load(model_dir + "/model.pt")
        except FileNotFoundError:
            model = torch.jit.load(model_dir + "/model.pth")
        return model

Quiet: the model is kept in a global

    model = None

    def model_fn(model_dir):
        global model
        model = load(model_dir)

Quiet: not implemented yet

    def model_fn(model_dir):
        pass
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.contract.inference_handlers import is_handler, is_placeholder
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Span

rule = Rule("SM112", "model-fn-returns-none", Severity.ERROR, needs=("model_fn",))
_LEAVES = ("exit", "abort", "_exit", "fail")


@rule.module
def check(module: Module, _: Project) -> Hits:
    function = module.functions.get("model_fn")
    if function is None or not is_handler(module) or is_placeholder(function):
        return
    inner = list(ast.walk(function))
    yield from _returned_none(module, inner)
    if any(isinstance(statement, (ast.Global, ast.Yield, ast.Match, ast.AsyncWith)) for statement in inner):
        return
    ends = _end(function.body)
    if ends is None:
        return
    place = ends if isinstance(ends, ast.ExceptHandler) else function
    span = module.span(place)
    yield rule.hit(
        Span(span.unit, span.line, span.column, span.line, len(module.unit.lines[span.line - 1]) + 1),
        "`model_fn` returns nothing when the exception is caught here: the endpoint starts and serves with None."
        if isinstance(place, ast.ExceptHandler)
        else "`model_fn` has a path that returns nothing: the endpoint starts and serves with None.",
        remedy="Raise after logging, so that the deployment fails with the reason."
        if isinstance(place, ast.ExceptHandler)
        else "Return the model at the end.",
    )


def _returned_none(module: Module, inner: list[ast.AST]) -> Hits:
    """`return None` in an exception handler of a function that otherwise returns a model."""
    returns = [node for node in inner if isinstance(node, ast.Return)]
    nothing = [
        return_ for return_ in returns if return_.value is None or getattr(return_.value, "value", 0) is None
    ]
    for match in nothing if len(nothing) < len(returns) else ():
        if module.enclosing(match, ast.ExceptHandler) is not None:
            yield rule.hit(
                module.span(match),
                "`model_fn` returns None when loading fails: the endpoint starts, but each request fails.",
                remedy="Raise after logging, so that the deployment fails with the reason.",
            )


def _end(block: list[ast.stmt]) -> ast.AST | None:
    """The last node if the end of a block can be reached; None if every path returns or raises."""
    for statement in block:
        match statement:
            case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
                return None
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name))) if (
                name in _LEAVES
            ):
                return None
            case ast.While(test=ast.Constant(value=value)) if value:
                return None
            case ast.With() if _end(statement.body) is None:
                return None
            case ast.If() if statement.orelse:
                if _end(statement.body) is None and _end(statement.orelse) is None:
                    return None
            case ast.Try():
                if statement.finalbody and _end(statement.finalbody) is None:
                    return None
                open_handlers = [handler for handler in statement.handlers if _end(handler.body) is not None]
                if _end([*statement.body, *statement.orelse]) is None:
                    if not open_handlers:
                        return None
                    if statement is block[-1]:
                        return open_handlers[0]
            case _:
                pass
    return block[-1] if block else ast.Pass()
