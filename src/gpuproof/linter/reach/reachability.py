"""Which code a job certainly runs: follows calls and imports from the script, and conditions with the job's arguments.

An error stops a job only where its line certainly runs. Loops are assumed to run, and checks that end in `raise` to pass.
"""

from __future__ import annotations

import ast
from typing import Literal, NamedTuple

from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.call_targets import (
    Definition,
    called_instance,
    find_definition,
    find_method,
    methods,
)
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode, callee_name
from gpuproof.linter.reach.conditions import selects_first_rank, truth
from gpuproof.linter.source.span import Span, Unit

_INVOKERS = frozenset({"spawn", "Process", "Thread", "notebook_launcher", "elastic_launch", "run", "Fire"})
"""Functions that call the function that they are given: `mp.spawn(train, ...)`, `app.run(main)`."""
_HARMLESS_HANDLERS = frozenset(
    {"KeyboardInterrupt", "SystemExit", "ImportError", "ModuleNotFoundError", "StopIteration", "OSError"}
    | {
        "FileNotFoundError",
        "FileExistsError",
        "PermissionError",
        "ConnectionError",
        "TimeoutError",
        "EOFError",
    }
)
"""Exceptions whose handlers do not hide errors in the code itself."""
_LONGEST_CONDITION = 60

_End = Literal["returns", "fails", "jumps"]


class _Flow(NamedTuple):
    """The end of a block.

    Attributes:
        ends: how the block certainly ends; None if the code after it runs.
        doubt: why the code after it may not run.
    """

    ends: _End | None = None
    doubt: str | None = None


class Reachability:
    """The code that a job runs.

    Args:
        has_gpu: whether the job has a GPU; None if it is unknown.
    """

    def __init__(self, script: Module, *, has_gpu: bool | None = None) -> None:
        self._script = script
        self._has_gpu = has_gpu
        self._modules: dict[Unit, Module] = {}
        self._doubts: dict[ast.AST, str | None] = {}
        """The statements that run, and expressions that may not, with the reason for doubt; None for no doubt."""
        self._imports: dict[Unit, str | None] = {script.unit: None}
        self._visited: dict[ast.AST, str | None] = {}
        self._pending: list[tuple[Module, ast.Module | FunctionNode, str | None]] = []
        self._visit(script, script.tree.root, None)
        while self._pending:
            module, node, doubt = self._pending.pop()
            self._block(module, node.body, doubt)

    def doubt(self, span: Span) -> str | None:
        """Why the job may not run the code at a position, as a sentence; None if it certainly runs it."""
        module = self._modules.get(span.unit)
        if module is None:
            return self.import_doubt(span.unit)
        if _is_rewritten(module):
            return f"{module.title} changes its own variables with exec() or globals()."
        node = _innermost(module, span)
        while node is not None and not isinstance(node, ast.stmt):
            if node in self._doubts:
                return self._doubts[node]
            node = module.parent(node)
        # A finding on a definition is about its body.
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node = node.body[0]
        return self._statement_doubt(module, node)

    def import_doubt(self, unit: Unit) -> str | None:
        """Why the job may not import a file, which may not parse; None if it certainly imports it."""
        return self._imports.get(unit, f"{self._script.title} does not certainly import this file.")

    def _statement_doubt(self, module: Module, node: ast.AST | None) -> str | None:
        if node is None:
            return None
        if node in self._doubts:
            return self._doubts[node]
        for ancestor in module.tree.ancestors(node):
            if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if ancestor not in self._visited:
                    return f"{self._script.title} does not call `{ancestor.name}` directly."
                break
            if isinstance(ancestor, ast.stmt) and self._doubts.get(ancestor) is not None:
                return self._doubts[ancestor]
        return "This job does not reach the line."

    def _visit(self, module: Module, node: ast.Module | FunctionNode, doubt: str | None) -> None:
        self._modules.setdefault(module.unit, module)
        if node in self._visited and (doubt is not None or self._visited[node] is None):
            return
        self._visited[node] = doubt
        self._pending.append((module, node, doubt))

    def _visit_definition(self, found: Definition, doubt: str | None) -> None:
        if not isinstance(found.node, ast.ClassDef):
            self._visit(found.module, found.node, doubt)
            return
        created = find_method(found, "__init__")
        if created is not None:
            self._visit_definition(created, doubt)
        for method in methods(found.node):
            if created is None or method is not created.node:
                self._visit(
                    found.module, method, doubt or f"`{found.node.name}.{method.name}` is called indirectly."
                )

    # Statements

    def _block(self, module: Module, body: list[ast.stmt], doubt: str | None) -> _Flow:
        leaves: str | None = None
        for statement in body:
            if statement not in self._doubts or doubt is None:
                self._doubts[statement] = doubt
            flow = self._statement(module, statement, doubt)
            if flow.ends is not None:
                return _Flow(flow.ends, leaves)
            leaves = leaves or flow.doubt
            doubt = doubt or flow.doubt
        return _Flow(None, leaves)

    def _statement(self, module: Module, node: ast.stmt, doubt: str | None) -> _Flow:
        match node:
            case ast.If():
                return self._if(module, node, doubt)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(module, node, doubt)
            case ast.Try():
                return self._try(module, node, doubt)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._expression(module, item.context_expr, doubt)
                if any("suppress" in module.text(item.context_expr) for item in node.items):
                    doubt = doubt or "A `with` statement suppresses the error."
                return self._block(module, node.body, doubt)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for default in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
                    self._expression(module, default, doubt)
            case ast.ClassDef():
                self._block(module, node.body, doubt)
            case ast.Match():
                self._expression(module, node.subject, doubt)
                for case in node.cases:
                    self._block(module, case.body, doubt or "It only runs in one `case`.")
            case ast.Import() | ast.ImportFrom():
                self._import(module, node, doubt)
            case _:
                self._expression(module, node, doubt)
                return _Flow(_ending(module, node))
        return _Flow()

    def _if(self, module: Module, node: ast.If, doubt: str | None) -> _Flow:
        self._expression(module, node.test, doubt)
        text = module.excerpt(node.test, _LONGEST_CONDITION)
        value = self._truth(module, node.test)
        if value is not None:
            runs, skipped = (node.body, node.orelse) if value else (node.orelse, node.body)
            for statement in skipped:
                self._doubts.setdefault(
                    statement, f"This job does not run the line: `{text}` is {str(value).lower()}."
                )
            return self._block(module, runs, doubt)
        one_process = selects_first_rank(module, node.test)
        body = self._block(module, node.body, doubt if one_process else doubt or f"It only runs if `{text}`.")
        other = self._block(module, node.orelse, doubt or f"It does not run if `{text}`.")
        if body.ends is not None and other.ends is not None and node.orelse:
            return _Flow("returns" if "returns" in (body.ends, other.ends) else body.ends)
        leaves = "returns" in (body.ends, other.ends)
        return _Flow(None, f"It may not run because of `if {text}`." if leaves else body.doubt or other.doubt)

    def _loop(self, module: Module, node: ast.For | ast.AsyncFor | ast.While, doubt: str | None) -> _Flow:
        head = node.test if isinstance(node, ast.While) else node.iter
        self._expression(module, head, doubt)
        never = self._truth(module, head) is False if isinstance(node, ast.While) else _is_empty(module, head)
        if never:
            for statement in node.body:
                self._doubts.setdefault(statement, "This job does not run the loop.")
            return self._block(module, node.orelse, doubt)
        body = self._block(module, node.body, doubt)
        self._block(module, node.orelse, doubt)
        leaves = f"It may not run because line {node.lineno} may return." if body.ends == "returns" else None
        return _Flow(None, leaves or body.doubt)

    def _try(self, module: Module, node: ast.Try, doubt: str | None) -> _Flow:
        hides = any(_hides_errors(module, clause) for clause in node.handlers)
        handled = (
            doubt or f"An except clause (line {node.handlers[0].lineno}) handles the error."
            if hides
            else doubt
        )
        body = self._block(module, node.body, handled)
        for handler in node.handlers:
            self._block(module, handler.body, doubt or "It only runs after an exception.")
        rest = self._block(module, node.orelse, doubt)
        final = self._block(module, node.finalbody, doubt)
        own = body.doubt if body.doubt != handled else None
        return _Flow(body.ends or rest.ends or final.ends, own or rest.doubt or final.doubt)

    def _import(self, module: Module, node: ast.Import | ast.ImportFrom, doubt: str | None) -> None:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            base = "." * node.level + (node.module or "")
            names = [
                base,
                *(
                    f"{base}{alias.name}" if base.endswith(".") else f"{base}.{alias.name}"
                    for alias in node.names
                ),
            ]
        for name in names:
            unit = module.loader.imported_unit(module, name) if name.strip(".") else None
            if unit is None or unit is module.unit:
                continue
            if unit not in self._imports or doubt is None:
                self._imports[unit] = doubt
            other = module.loader.module(unit)
            if other is not None:
                self._visit(other, other.tree.root, doubt)

    # Expressions

    def _expression(self, module: Module, root: ast.AST | None, doubt: str | None) -> None:
        """Follow the calls in an expression or simple statement."""
        pending: list[tuple[ast.AST, str | None]] = [(root, doubt)] if root is not None else []
        while pending:
            node, reason = pending.pop()
            if isinstance(node, ast.Call):
                self._call(module, node, reason)
            if isinstance(node, ast.IfExp):
                pending.append((node.test, reason))
                pending += self._branches(module, node, reason)
            elif isinstance(node, ast.BoolOp):
                pending += self._operands(module, node, reason)
            elif isinstance(node, ast.Lambda):
                pending.append(
                    (node.body, self._own(node.body, reason, "It only runs where the lambda is called."))
                )
            else:
                pending += [(child, reason) for child in ast.iter_child_nodes(node)]

    def _branches(
        self, module: Module, node: ast.IfExp, doubt: str | None
    ) -> list[tuple[ast.AST, str | None]]:
        value = self._truth(module, node.test)
        text = module.excerpt(node.test, _LONGEST_CONDITION)
        if value is None:
            return [
                (node.body, self._own(node.body, doubt, f"It only runs if `{text}`.")),
                (node.orelse, self._own(node.orelse, doubt, f"It does not run if `{text}`.")),
            ]
        runs, skipped = (node.body, node.orelse) if value else (node.orelse, node.body)
        self._doubts[skipped] = f"This job does not run it: `{text}` is {str(value).lower()}."
        return [(runs, doubt)]

    def _operands(
        self, module: Module, node: ast.BoolOp, doubt: str | None
    ) -> list[tuple[ast.AST, str | None]]:
        found: list[tuple[ast.AST, str | None]] = []
        own = doubt
        for value in node.values:
            if own is not None and own != doubt:
                self._doubts[value] = own
            found.append((value, own))
            if self._truth(module, value) is not isinstance(node.op, ast.And):
                text = module.excerpt(value, _LONGEST_CONDITION)
                own = own or f"It depends on `{text}`."
        return found

    def _own(self, node: ast.AST, doubt: str | None, reason: str) -> str:
        self._doubts[node] = reason
        return doubt or reason

    def _call(self, module: Module, node: ast.Call, doubt: str | None) -> None:
        found = find_definition(module, node.func) or called_instance(module, node.func)
        if found is not None:
            self._visit_definition(found, doubt)
        name = callee_name(node)
        for value in (*node.args, *(keyword.value for keyword in node.keywords)):
            if not isinstance(value, (ast.Name, ast.Attribute)):
                continue
            passed = find_definition(module, value)
            if passed is not None:
                reason = doubt if name in _INVOKERS else doubt or f"`{name}` decides whether to call it."
                self._visit_definition(passed, reason)

    def _truth(self, module: Module, test: ast.expr) -> bool | None:
        if _is_rewritten(module):
            return True if _is_main_test(test) and module is self._script else None
        return truth(module, test, is_script=module is self._script, has_gpu=self._has_gpu)


def _is_rewritten(module: Module) -> bool:
    """Whether a module changes its variables in ways that are not analysed."""
    return module.derived(_calls_exec)


def _calls_exec(module: Module) -> bool:
    return any(
        isinstance(node.func, ast.Name) and node.func.id in ("exec", "globals")
        for node in module.nodes(ast.Call)
    )


def _is_main_test(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _ending(module: Module, node: ast.stmt) -> _End | None:
    """How a simple statement ends the block that contains it."""
    match node:
        case ast.Return():
            return "returns"
        case ast.Raise():
            return "fails"
        case ast.Continue() | ast.Break():
            return "jumps"
        case ast.Expr(value=ast.Call(func=function, args=arguments)):
            name = module.qualified(function) or (function.id if isinstance(function, ast.Name) else "")
            if name not in ("sys.exit", "exit", "quit", "os._exit"):
                return None
            code = evaluate(module, arguments[0]) if arguments else None
            return (
                "fails" if code is not None and code.is_known and code.value not in (0, None) else "returns"
            )
        case _:
            return None


def _hides_errors(module: Module, handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches errors of the code itself and lets the script continue."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {module.text(kind).rpartition(".")[2] if kind is not None else "Exception" for kind in kinds}
    if names <= _HARMLESS_HANDLERS:
        return False
    last = handler.body[-1]
    return _ending(module, last) != "fails"


def _is_empty(module: Module, iterable: ast.expr) -> bool:
    """Whether a loop over an expression certainly has no iteration."""
    if isinstance(iterable, ast.Call) and callee_name(iterable) == "range" and len(iterable.args) == 1:
        limit = evaluate(module, iterable.args[0])
        return limit.is_known and limit.number is not None and limit.number <= 0
    value = evaluate(module, iterable)
    return value.is_known and value.items == ()


def _innermost(module: Module, span: Span) -> ast.AST | None:
    """The smallest node that contains the start of a span."""
    best: ast.AST | None = None
    for node in module.tree.parents:
        line = getattr(node, "lineno", None)
        if line is None or line > span.line or (getattr(node, "end_lineno", None) or line) < span.line:
            continue
        found = module.span(node)
        start, end = (found.line, found.column), (found.end_line, found.end_column)
        if not start <= (span.line, span.column) < end:
            continue
        # Children follow their parents.
        if best is None or _size(module, node) <= _size(module, best):
            best = node
    return best


def _size(module: Module, node: ast.AST) -> tuple[int, int]:
    span = module.span(node)
    lines = span.end_line - span.line
    return lines, span.end_column - (span.column if lines == 0 else 0)
