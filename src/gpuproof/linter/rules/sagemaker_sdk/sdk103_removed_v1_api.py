"""This name or method of SDK version 1 does not exist in version 2, or has no effect there.

`from sagemaker.predictor import csv_serializer` is an ImportError since v2. Methods that were kept without effect are
worse: `tuner.delete_endpoint()` and `estimator.delete_endpoint()` only print a warning, and the endpoint is still
billed.

Bad:

    from sagemaker.predictor import csv_serializer  # <-

Bad:

    import sagemaker

    channel = sagemaker.s3_input("s3://bucket/train")  # <-

Bad: the endpoint keeps running

    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge")
    predictor = estimator.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    estimator.delete_endpoint()  # <-

Fixed:

    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge")
    predictor = estimator.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    predictor.delete_endpoint()

Good:

    from sagemaker.pytorch import PyTorch
    from sagemaker.serializers import CSVSerializer

    estimator = PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
    )
    predictor = estimator.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge", serializer=CSVSerializer())
    predictor.delete_endpoint()

Quiet: the ImportError is caught

    try:
        from sagemaker.predictor import csv_serializer
    except ImportError:
        csv_serializer = None
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.sdk import SdkChange, v1_method, v1_name, v3
from gpuproof.linter.sdk.calls import sdk_major, sdk_path
from gpuproof.linter.sdk.names import used_names
from gpuproof.linter.source.edit import Fix

rule = Rule("SDK103", "removed-v1-api", Severity.ERROR, needs=("sagemaker",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("sagemaker"):
        return
    major = sdk_major(module, project)
    if major == 1:
        return
    for name in used_names(module):
        change = v1_name(name.path)
        if change is None or name.guarded or (major == 3 and v3().has(name.path)):
            continue
        works = change.state == "deprecated"
        yield rule.hit(
            module.span(name.node),
            f"`{name.path}` {'is a deprecated name' if works else 'does not exist'} in sagemaker v2.",
            remedy=f"Use {change.new}." if change.new else "It has no successor; pin sagemaker<2 to keep it.",
            severity=Severity.WARNING if works else rule.severity,
        )
    for call in calls_named(module, "delete_endpoint"):
        path = sdk_path(call)
        if path and (change := v1_method(path)):
            yield _no_effect(call, change)


def _no_effect(call: Call, change: SdkChange):
    predictor = _predictor(call)
    return rule.hit(
        call.span,
        f"`{call.method}` of a `{change.path.split('.')[-2]}` has no effect since sagemaker v2: the endpoint keeps "
        "running and is billed.",
        remedy=f"Call {predictor or 'predictor'}.delete_endpoint() on the object that deploy() returned.",
        fix=_fix(call, predictor) if predictor else None,
    )


def _fix(call: Call, predictor: str) -> Fix | None:
    if call.receiver is None:
        return None
    edit = replace_node(call.module, call.receiver, predictor)
    return Fix(f"Call {predictor}.delete_endpoint()", (edit,), safe=True)


def _predictor(call: Call) -> str | None:
    """The only variable with the return value of the same object's `deploy()`."""
    module = call.module
    origin = module.origin(call.receiver)
    found = [
        target.id
        for deploy in calls_named(module, "deploy")
        if deploy.receiver is not None and module.origin(deploy.receiver) is origin
        for parent in [module.parent(deploy.node)]
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1
        for target in parent.targets
        if isinstance(target, ast.Name) and module.function_of(deploy.node) is module.function_of(call.node)
    ]
    return found[0] if len(found) == 1 else None
