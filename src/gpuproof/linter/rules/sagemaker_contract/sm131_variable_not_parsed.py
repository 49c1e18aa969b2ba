"""The script reads an environment variable as JSON or a number, and the job passes a text that is neither.

`json.loads(os.environ["LABELS"])` needs `["cat", "dog"]`, and a job that passes `str(labels)` or `"cat,dog"` passes
something else: the script ends with JSONDecodeError or ValueError, on a machine that is already billed.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_type="ml.g5.xlarge",
        environment={"LABELS": "cat,dog"},  # <-
    ).fit()
    # file: train.py
    import json
    import os

    labels = json.loads(os.environ["LABELS"])

Good:

    # file: launch.py
    import json

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge", environment={"LABELS": json.dumps(["cat", "dog"])},
    ).fit()
    # file: train.py
    import json
    import os

    labels = json.loads(os.environ["LABELS"])

Bad: the text of a Python list, and of a number

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    labels = ["cat", "dog"]
    PyTorch(
        entry_point="train.py", instance_type="ml.g5.xlarge",
        environment={
            "LABELS": str(labels),  # <-
            "WARMUP": "0.1",  # <-
        },
    ).fit()
    # file: train.py
    import json
    import os

    def main():
        labels = json.loads(os.getenv("LABELS", "[]"))
        warmup = int(os.environ.get("WARMUP", "10"))

    main()

Quiet: the script catches it

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", environment={"LABELS": "cat,dog"}).fit()
    # file: train.py
    import json
    import os

    try:
        labels = json.loads(os.environ["LABELS"])
    except ValueError:
        labels = os.environ["LABELS"].split(",")

Quiet: valid JSON

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", environment={"LABELS": "[1, 2]", "SIZE": " 8"}).fit()
    # file: train.py
    import json
    import os

    labels, size = json.loads(os.environ["LABELS"]), int(os.environ["SIZE"])
"""

import ast
import json

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import argument_node
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.distribution.ranks import always_runs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM131", "variable-not-parsed", Severity.ERROR, when="link")

_READS = frozenset(["os.environ.get", "os.getenv"])
_PARSERS = {"json.loads": "JSON", "int": "int", "float": "float"}


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    script = job.script
    if script is None or script is job.module or not job.environment.parts:
        return
    for call in all_calls(script):
        kind = _PARSERS.get(call.name or "") or _builtin(call)
        name = _variable(script, call) if kind is not None else None
        if kind is None or name is None:
            continue
        value = job.environment.at(name)
        text = _text_of(job, value)
        if text is None or _accepts(kind, text) or not always_runs(script, call.node):
            continue
        what = "JSON" if kind == "JSON" else f"{kind}(...)"
        yield rule.hit(
            job.where(value, job.environment),
            f"`{job.script_title}` reads the variable {name} as {what} (line {call.span.line}), and the job passes "
            f"`{text[:60]}`: {'JSONDecodeError' if kind == 'JSON' else 'ValueError'}.",
            remedy="Pass json.dumps(...) of the value."
            if kind == "JSON"
            else f"Pass what {kind}() accepts, or convert it in the script.",
        )


def _builtin(call: Call) -> str | None:
    function = call.node.func
    is_name = isinstance(function, ast.Name) and not call.module.binds(function.id)
    return (
        function.id
        if is_name and isinstance(function, ast.Name) and function.id in ("int", "float")
        else None
    )


def _variable(script: Module, call: Call) -> str | None:
    """The environment variable that a call parses."""
    written = script.origin(argument_node(call.node, position=0))
    if isinstance(written, ast.Subscript) and script.qualified(written.value) == "os.environ":
        return evaluate(script, written.slice).text
    if isinstance(written, ast.Call) and script.qualified(written.func) in _READS:
        return evaluate(script, argument_node(written, "key", 0)).text
    return None


def _text_of(job: JobDefinition, value: Value) -> str | None:
    """The text of a variable in the container; None if it is unknown."""
    if value.is_known and isinstance(value.value, str):
        return value.value
    # `str(labels)` of a list or mapping is its repr.
    if job.module is None or value.span is None or not _is_written_out(value):
        return None
    for node in job.module.nodes(ast.Call):
        is_str = isinstance(node.func, ast.Name) and node.func.id == "str" and len(node.args) == 1
        if is_str and job.module.span(node) == value.span:
            return str(value.plain())
    return None


def _is_written_out(value: Value) -> bool:
    """Whether a list or mapping is known with all that is in it."""
    parts = value.items if value.items is not None else tuple(value.parts.values())
    return bool(parts) and all(
        part.is_known if part.items is None and part.entries is None else _is_written_out(part)
        for part in parts
    )


def _accepts(kind: str, text: str) -> bool:
    try:
        {"JSON": json.loads, "int": int, "float": float}[kind](text)
    except (ValueError, RecursionError):
        return False
    return True
