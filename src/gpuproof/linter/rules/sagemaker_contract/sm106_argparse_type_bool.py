"""`type=bool` does not parse a boolean: argparse calls `bool("False")`, and any non-empty text is true.

`--shuffle False` turns shuffling on, and so does the hyperparameter `"shuffle": False` of a SageMaker job, which is
passed to the script as the text `False`. Nothing fails; the run just does not do what was requested.

Bad:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--shuffle", type=bool, default=True)  # <-

Fixed:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--shuffle", type=lambda text: text.lower() not in ("", "0", "false", "no"), default=True)

Good:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--shuffle", type=lambda text: text.lower() == "true", default=True)

Quiet: a custom function with a similar name

    import argparse

    def to_bool(text):
        return text.lower() == "true"

    parser = argparse.ArgumentParser()
    parser.add_argument("--shuffle", type=to_bool, default=True)

Quiet: another library's parser, which gets booleans from JSON

    from flask_restful import reqparse

    parser = reqparse.RequestParser()
    parser.add_argument("active", type=bool, location="json")
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("SM106", "argparse-type-bool", Severity.ERROR, needs=("add_argument",))

_PARSER = 'lambda text: text.lower() not in ("", "0", "false", "no")'
_OTHERS = ("flask_restful", "flask_restx", "flask_restplus", "reqparse", "tap", "click")
"""Libraries whose parsers read `type=bool` as `true` or `false`."""


@rule.module
def check(module: Module, _: Project) -> Hits:
    for call in calls_named(module, "add_argument"):
        kind = call.expression("type")
        if not isinstance(kind, ast.Name) or kind.id != "bool" or module.reaching(kind):
            continue
        if call.receiver is None or "bool" in module.names.imports:
            continue
        if _is_of_another_library(module, call):
            continue
        flag = call.argument(position=0).text or "this argument"
        fix = Fix("Parse the text as a boolean", (replace_node(module, kind, _PARSER),), safe=True)
        yield rule.hit(
            module.span(kind) if kind.lineno == call.node.lineno else call.span,
            f"`type=bool` makes `{flag} False` true: bool() of any non-empty text is True.",
            remedy='Use type=lambda text: text.lower() == "true", or action=argparse.BooleanOptionalAction '
            "if no SageMaker hyperparameter sets it.",
            fix=fix,
        )


def _is_of_another_library(module: Module, call: Call) -> bool:
    """Whether a parser may be one of another library: it was created by it, or is unknown in a file that imports it."""
    parser = origin_call(module, call.receiver)
    if parser is not None and parser.name is not None:
        return parser.name.startswith(_OTHERS)
    return module.imports(*_OTHERS)
