"""What a Python script starts itself: `subprocess.run([sys.executable, "train.py"])`, `os.system("torchrun train.py")`, runpy."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuproof.linter.analysis.call import Call, calls_to
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.commands.programs import Start, read_text, read_words

_RUNS = (
    *(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "Popen")),
    *("os.system", "os.popen"),
)
_PYTHON = frozenset({"sys.executable", "str(sys.executable)"})


def started_by(module: Module, words: Sequence[str]) -> Iterator[Start]:
    """What a script starts as other processes.

    Args:
        words: the command line of the script, in which a launcher mostly gets the name of the script: `-e train.py`.
    """
    if not module.imports("subprocess", "os", "runpy"):
        return
    for call in calls_to(module, "runpy.run_path"):
        path = call.argument("path_name", 0)
        if path.is_known and path.text is not None:
            yield Start("python", path.text, tuple(words), line=module.span(call.node).line)
    given = [word.partition("=")[2] or word for word in words]
    scripts = list(dict.fromkeys(word for word in given if word.endswith((".py", ".sh")) and "$" not in word))
    for call in calls_to(module, *_RUNS):
        for start in _of_call(call):
            found = start
            if start.kind == "unknown" and len(scripts) == 1:
                kind = "shell" if scripts[0].endswith(".sh") else "python"
                found = replace(start, kind=kind, program=scripts[0])
            conditional = module.enclosing(call.node, ast.If, ast.IfExp, ast.Try) is not None
            yield replace(
                found, line=module.span(call.node).line, is_conditional=found.is_conditional or conditional
            )


def _of_call(call: Call) -> Iterator[Start]:
    module = call.module
    command = module.origin(call.expression("args", 0) or call.expression("command", 0))
    if isinstance(command, (ast.List, ast.Tuple)):
        yield from read_words([_word(module, node) for node in command.elts])
        return
    value = evaluate(module, command)
    if value.items is not None:
        yield from read_words([str(item.value) if item.is_known else "$(...)" for item in value.items])
    elif text := _text(module, command, value):
        yield from read_text(text)


def _word(module: Module, node: ast.expr) -> str:
    written = module.text(node.value if isinstance(node, ast.Starred) else node)
    if written in _PYTHON:
        return "python"
    value = evaluate(module, node)
    return str(value.value) if value.is_known else f"$({written})"


def _text(module: Module, node: ast.expr | None, value: Value) -> str | None:
    """A shell text, with `$(...)` for what is unknown in it."""
    if value.is_known:
        return value.text
    if isinstance(node, ast.JoinedStr):
        parts = [
            str(part.value) if isinstance(part, ast.Constant) else _word(module, part.value)
            for part in node.values
            if isinstance(part, (ast.Constant, ast.FormattedValue))
        ]
        return "".join(parts)
    return f"{value.prefix}$(...){value.suffix}" if value.prefix else None
