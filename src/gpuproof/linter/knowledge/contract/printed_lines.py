"""The lines that a script prints or logs, with samples for the values that are only known when it runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.local_imports import local_modules, unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.programs import starts_programs

_SAMPLES = ("0.5312", "7", "word")
_MAX_WORDS = 8
"""Texts of the script that are tried in the place of a value; a line with more is taken to print any of them."""
_LOGGERS = frozenset(["debug", "info", "warning", "error", "critical", "exception", "log"])
_PRINTS_ITSELF = re.compile(
    r"^(tensorflow|keras|tf_keras|transformers|trl|sentence_transformers|lightning|pytorch_lightning|xgboost|lightgbm"
    r"|catboost|mxnet|ultralytics|fastai|ignite|rich|absl|accelerate|deepspeed|horovod|loguru|structlog|mlflow|wandb|pprint"
    r"|logging\.config)(\.|$)"
)
"""Libraries that write lines of their own, or whose lines are not written out in the script."""
_PROGRESS = ("set_postfix", "set_postfix_str", "set_description", "set_description_str")
"""Methods of progress bars that add words to them."""
_PLACE = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[sdifgeExXr%]|\{[^{}]*\}")
_HOLE = "\0"


def printed_lines(script: Module, regex: str) -> list[str] | None:
    """The lines that a script and its modules print, each with several samples; None if they may print others.

    A value that is printed may also be one of the script's own texts: `Meter("lr")` prints `lr 0.01` with `f"{self.name} {x}"`.
    The samples have those that occur in the regular expression.
    """
    loader = script.loader
    templates = loader.cached("printed lines", script.unit, lambda: _templates(script))
    if templates is None:
        return None
    words = loader.cached("printed words", script.unit, lambda: _words(script))
    named = [word for word in words if word in regex]
    if len(named) > _MAX_WORDS:
        return None
    return [line for template in templates for line in _samples(template, named)]


def _words(script: Module) -> frozenset[str]:
    """The texts of a script and its modules that a line may have in the place of a value."""
    return frozenset(
        node.value.strip()
        for module in local_modules(script)
        for node in module.nodes(ast.Constant)
        if isinstance(node.value, str) and re.search(r"[^\W\d]{2}", node.value)
    )


def _templates(script: Module) -> list[str] | None:
    if unseen_imports(script) or starts_programs(script):
        return None
    found: list[str] = []
    for module in local_modules(script):
        if uses(module, _PRINTS_ITSELF, "call", "name") or calls_named(module, *_PROGRESS):
            return None
        for call in all_calls(module):
            template = _template(call)
            if template is None:
                return None
            if template:
                found.append(template)
    return found


def _samples(template: str, words: list[str]) -> Iterator[str]:
    for sample in _SAMPLES:
        yield template.replace(_HOLE, sample)
    before, *parts = template.split(_HOLE)
    for word in words if parts else ():
        for sample in _SAMPLES:
            for place in range(len(parts)):
                values = [word if index == place else sample for index in range(len(parts))]
                yield before + "".join(value + part for value, part in zip(values, parts, strict=True))


def _template(call: Call) -> str | None:
    """What a call prints, with `_HOLE` for unknown values; empty for other calls, None if it may be any text."""
    is_print = call.name == "print" or (call.method == "print" and call.receiver is None)
    if not is_print and not _is_logged(call) and not _is_written(call):
        return ""
    arguments = call.node.args
    if any(isinstance(argument, ast.Starred) for argument in arguments):
        return None
    if is_print:
        if (target := call.expression("file")) is not None and call.module.qualified(target) != "sys.stderr":
            return ""
        separator = call.argument("sep")
        between = separator.text if separator.text is not None else " " if separator.is_absent else None
        pieces = [_piece(call.module, argument, alone=len(arguments) == 1) for argument in arguments]
        return None if between is None or None in pieces else between.join(filter(None, pieces))
    if not arguments:
        return ""
    if call.method == "log":
        arguments = arguments[1:]
    text = _piece(call.module, arguments[0], alone=True) if arguments else ""
    return _PLACE.sub(_HOLE, text) if text is not None and len(arguments) > 1 else text


def _is_logged(call: Call) -> bool:
    if call.method not in _LOGGERS or call.receiver is None:
        return False
    made = call.module.origin(call.receiver)
    is_logger = isinstance(made, ast.Call) and callee_name(made) in ("getLogger", "get_logger")
    return is_logger or call.module.qualified(call.receiver) == "logging"


def _is_written(call: Call) -> bool:
    return call.name in ("sys.stdout.write", "sys.stderr.write")


def _piece(module: Module, node: ast.expr, *, alone: bool, depth: int = 0) -> str | None:
    """The text of one printed expression; None if it may be any text."""
    value = evaluate(module, node)
    if value.is_known and isinstance(value.value, (str, int, float)):
        return str(value.value)
    made = module.origin(node)
    match made:
        case ast.JoinedStr(values=values):
            parts = [str(part.value) if isinstance(part, ast.Constant) else _HOLE for part in values]
            text = "".join(parts)
            return None if alone and not text.replace(_HOLE, "").strip() else text
        case ast.BinOp(op=ast.Mod(), left=left):
            template = evaluate(module, left).text
            return _PLACE.sub(_HOLE, template) if template is not None else None
        case ast.BinOp(op=ast.Add(), left=left, right=right) if depth < 20:
            parts = [_piece(module, part, alone=False, depth=depth + 1) for part in (left, right)]
            return None if None in parts else "".join(filter(None, parts))
        case ast.Call(func=ast.Attribute(attr="format", value=template)):
            text = evaluate(module, template).text
            return _PLACE.sub(_HOLE, text) if text is not None else None
        case ast.Call():
            return _of_call(module, made, alone=alone)
        case ast.Name() | ast.Attribute() | ast.Subscript() if alone:
            return None
        case _:
            return _HOLE


def _of_call(module: Module, made: ast.Call, *, alone: bool) -> str | None:
    """What a call that is printed returns: a number or an object, unless it may make a text with names in it."""
    name = callee_name(made)
    makes_text = name in (
        "dumps",
        "join",
        "format",
        "str",
        "repr",
        "summary",
        "classification_report",
        "pformat",
    )
    own = name in module.functions or (
        module.qualified(made.func) is None and isinstance(made.func, ast.Name)
    )
    is_class = name[:1].isupper()
    return None if makes_text or (alone and own and not is_class) else _HOLE
