"""A message with placeholders that are not filled in: the log of the job has the text of the format instead of the loss.

`print("loss %f", loss)` does not format (only logging does), `print("loss {:.3f}", loss)` lacks `.format`, and `print("loss {loss:.3f}")` lacks
its `f`. The values of hours of training are not in the log, and the job's metric definitions match nothing.

Bad:

    import torch

    def train(model, loader):
        for epoch in range(3):
            loss = sum(model(x).mean().item() for x in loader)
            print("epoch %d: loss %.3f", epoch, loss)  # <-
            print("epoch {}: loss {:.3f}", epoch, loss)  # <-
            print("epoch {epoch}: loss {loss:.3f}")  # <-
            print("loss: %.3f")  # <-
            print("epoch {} loss {}")  # <-

Fixed:

    import torch

    def train(model, loader):
        for epoch in range(3):
            loss = sum(model(x).mean().item() for x in loader)
            print("epoch %d: loss %.3f" % (epoch, loss))
            print("epoch {}: loss {:.3f}".format(epoch, loss))
            print(f"epoch {epoch}: loss {loss:.3f}")
            print("loss: %.3f")
            print("epoch {} loss {}")

Bad: logging with other values than placeholders, and the name of a checkpoint

    import logging
    import os
    import torch

    logger = logging.getLogger(__name__)

    def train(model, loader, folder):
        for epoch in range(3):
            loss = sum(model(x).mean().item() for x in loader)
            logger.info("loss", loss)  # <-
            logger.info("epoch {} loss {}", epoch, loss)  # <-
            logging.info("epoch %d loss %.3f")  # <-
            torch.save(model.state_dict(), os.path.join(folder, "model_{epoch}.pt"))  # <-

Good:

    import torch

    def train(model, loader):
        for epoch in range(3):
            loss = sum(model(x).mean().item() for x in loader)
            print(f"epoch {epoch}: loss {loss:.3f}")

Quiet: logging formats, and braces and percent signs that are text

    import logging
    import torch

    log = logging.getLogger(__name__)

    def train(model, loader, epoch):
        log.info("epoch %d", epoch)
        log.info("%d%% of epoch %(epoch)d is done", {"epoch": epoch})
        log.warning("%s: %*d", "epoch", 5, epoch, exc_info=True)
        log.info("100% of epoch")
        torch.save({}, "model_{epoch}.pt".format(epoch=epoch))
        print("100% done", epoch)
        print('{"epoch": 1}', "{other}", "a set {1, 2}", epoch)
        print("Use {epoch} in the file name, such as {epoch:03d}.pt".replace("{epoch}", str(epoch)))
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule(
    "PF155",
    "message-without-values",
    Severity.WARNING,
    needs=("torch", "tensorflow", "keras", "transformers"),
)

_PERCENT = re.compile(r"(?<!%)%[-+#0]?\d*(\.\d+)?[dfgeis](?![a-zA-Z])")
_NUMBER = re.compile(r"(?<!%)%[-+#0]?\d*(\.\d+)?[dfi](?![a-zA-Z])")
_EMPTY = re.compile(r"\{\d?(:[^{}\s]*)?\}")
_NAMED = re.compile(r"\{([A-Za-z_]\w*)((?:\.\w+|\[\w+\])*)(?:![rs])?(:[-+,.0-9<>^]*[defgs%]?)?\}")

_LOGGED = re.compile(r"%(\(\w+\))?[-+ #0]*(?:\*|\d+)?(\.(?:\*|\d+))?[hlL]?([diouxXeEfFgGcrsa%])")
_LOG_METHODS = ("debug", "info", "warning", "error", "critical", "exception", "log")
_FILLS = frozenset({"format", "format_map", "replace"})


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch", "tensorflow", "keras", "transformers") or is_test(module):
        return
    for call, text in _messages(module):
        problem = _problem(module, call, text)
        if problem is not None:
            message, remedy, fixed = problem
            yield rule.hit(
                call.span,
                message,
                remedy=remedy,
                fix=Fix("Fill in the values", (replace_node(module, call.node, fixed),)) if fixed else None,
            )
    for name, placeholder in _file_names(module):
        yield rule.hit(
            module.span(name),
            f"`{placeholder}` is part of the file's name as it is: each save overwrites the one before.",
            remedy="Write f before the quotes.",
        )


def _messages(module: Module) -> Iterator[tuple[Call, ast.Constant]]:
    for call in calls_named(module, "print", *_LOG_METHODS, "write"):
        first = call.node.args[0] if call.node.args else None
        if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
            continue
        if any(isinstance(argument, ast.Starred) for argument in call.node.args):
            continue
        if (call.method == "print" and call.receiver is None and not module.binds("print")) or (
            call.method != "print"
            and call.receiver is not None
            and (len(call.node.args) == 1 or _is_logging(module, call))
        ):
            yield call, first


def _is_logging(module: Module, call: Call) -> bool:
    """Whether a call is one of the standard library's logging."""
    if call.receiver is None or call.method not in _LOG_METHODS or call.method == "log":
        return False
    if call.name is not None and call.name.startswith("logging."):
        return True
    made = creations(module, call.receiver)
    return bool(made) and all(each.name == "logging.getLogger" for each in made)


def _logged(call: Call, value: str) -> tuple[str, str, str] | None:
    """What is wrong with the values of a logging call that has some."""
    found = [match for match in _LOGGED.finditer(value) if match.group(3) != "%"]
    count = len(call.node.args) - 1
    if any(match.group(1) or "*" in match.group() for match in found) or len(found) == count:
        return None
    if count == 1 and (found or isinstance(call.node.args[1], ast.Dict)):
        return None  # a mapping may have several values, or more than are shown
    placeholders = f"{len(found) or 'no'} placeholder{'' if len(found) == 1 else 's'}"
    return (
        f"The text has {placeholders} and {count} value{'' if count == 1 else 's'}: logging writes an error in place of the message.",
        "Write %s in the text for each value.",
        "",
    )


def _file_names(module: Module) -> Iterator[tuple[ast.Constant, str]]:
    """Names of saved files with a placeholder that nothing fills in, and the placeholder."""
    for call in calls_named(module, "save", "save_pretrained", "save_weights", "save_model"):
        path = call.expression("f", 1) if call.name == "torch.save" else call.expression("filepath", 0)
        if path is None or any(
            isinstance(node, ast.Attribute) and node.attr in _FILLS for node in ast.walk(path)
        ):
            continue
        for node in ast.walk(path):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            named = list(_NAMED.finditer(node.value))
            if (
                named
                and not isinstance(module.parent(node), (ast.JoinedStr, ast.BinOp))
                and all(_is_variable(module, match.group(1), call.node) for match in named)
            ):
                yield node, named[0].group()


def _problem(module: Module, call: Call, text: ast.Constant) -> tuple[str, str, str] | None:
    """What is wrong with a message, what to write, and the whole call with it; None if nothing is."""
    value, others = str(text.value), call.node.args[1:]
    written = module.text(text)
    rest = ", ".join(module.text(node) for node in others)
    is_simple = not call.node.keywords and "\n" not in written
    if call.method != "print" and others:
        return _logged(call, value)
    if others:
        count = len(_PERCENT.findall(value))
        if count and count == len(others):
            values = rest if count == 1 and isinstance(others[0], (ast.Name, ast.Attribute)) else f"({rest})"
            return (
                f"`print` does not fill in `{_first(_PERCENT, value)}`: it prints the text and the values one after the other.",
                'Use an f-string, or "..." % (values).',
                f"print({written} % {values})" if is_simple and count > 1 else "",
            )
        holes = list(_EMPTY.finditer(value))
        if len(holes) == len(others):
            return (
                f"`print` does not fill in `{holes[0].group()}`: `.format` is missing.",
                "Use an f-string, or .format(values).",
                f"print({written}.format({rest}))" if is_simple else "",
            )
        return None
    named = list(_NAMED.finditer(value))
    if (
        named
        and all(_is_variable(module, match.group(1), call.node) for match in named)
        and _is_text(value, named)
    ):
        return (
            f"`{named[0].group()}` is printed as it is: the `f` before the text is missing.",
            "Write f before the quotes.",
            f"{module.text(call.node.func)}(f{written})" if is_simple and len(call.node.args) == 1 else "",
        )
    holes = list(_EMPTY.finditer(value))
    is_format = len(holes) > 1 or any(hole.group(1) for hole in holes)
    if is_format and _is_text(value, holes) and re.search(r"[A-Za-z]{2}", _EMPTY.sub("", value)):
        return (
            f"`{holes[0].group()}` is printed as it is: the values are missing.",
            "Use an f-string, or .format(values).",
            "",
        )
    is_printed = call.method == "print" or _is_logging(module, call)
    if is_printed and not named and _NUMBER.search(value) and not call.node.keywords:
        return (
            f"`{_first(_NUMBER, value)}` is printed as it is: the values are missing.",
            "Use an f-string.",
            "",
        )
    return None


def _first(pattern: re.Pattern[str], value: str) -> str:
    match = pattern.search(value)
    return match.group() if match is not None else ""


def _is_variable(module: Module, name: str, at: ast.AST) -> bool:
    """Whether a name is a variable of the function or loop around a message, which a format would show."""
    return any(
        binding.kind in ("assign", "unpack", "loop", "augmented", "parameter", "with")
        for binding in module.names.visible(name, at)
    )


def _is_text(value: str, named: list[re.Match[str]]) -> bool:
    """Whether all braces of a text belong to these placeholders."""
    return value.count("{") == len(named) == value.count("}")
