"""Version 2 of the SDK renamed or removed this parameter of version 1.

It concerns `train_instance_type`, `image_name`, `distributions` and about forty others: v2 accepts some old names
with a warning; for others the call fails, or the parameter is ignored and the estimator runs without it. Version 3
accepts none of them.

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="1.5", py_version="py3",
        train_instance_type="ml.p3.2xlarge",  # <-
        train_instance_count=1,  # <-
    )

Fixed:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="1.5", py_version="py3",
        instance_type="ml.p3.2xlarge",
        instance_count=1,
    )

Bad: a model rejects the old name

    from sagemaker.pytorch import PyTorchModel

    PyTorchModel(model_data="s3://bucket/model.tar.gz", role="role", image="account/image:1")  # <-

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_type="ml.g5.xlarge", instance_count=1, max_run=3600,
    )

Quiet: the project pins version 1

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", train_instance_type="ml.p3.2xlarge", train_instance_count=1)
    # file: requirements.txt
    sagemaker==1.72.1

Quiet: a parameter of another library

    from mylib import Trainer

    Trainer(train_instance_type="ml.p3.2xlarge", image_name="image")
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import remove_keyword
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.sdk import SdkChange, v1_parameter
from gpuproof.linter.sdk.calls import keyword_span, rename_keyword, sdk_major, sdk_path
from gpuproof.linter.source.edit import Fix

rule = Rule("SDK102", "v1-parameter", Severity.WARNING, needs=("sagemaker",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("sagemaker"):
        return
    major = sdk_major(module, project)
    if major == 1:
        return
    for call in all_calls(module):
        path = sdk_path(call)
        for keyword in call.node.keywords if path else ():
            name = keyword.arg or ""
            change = v1_parameter(path or "", name)
            if change is None or (change.state == "gone" and not change.new):
                # Parameters removed without a successor are unknown parameters: SDK101.
                continue
            fails = major == 3 or change.state == "gone"
            yield rule.hit(
                keyword_span(call, keyword),
                _message(call, name, change),
                remedy=f"Write {change.new}=." if change.new else f"Remove {name}=.",
                severity=Severity.ERROR if fails else rule.severity,
                fix=_fix(call, name, change),
            )


def _message(call: Call, name: str, change: SdkChange) -> str:
    became = f"was renamed to `{change.new}`" if change.new else "was removed"
    outcome = {
        "gone": "the call raises TypeError",
        "deprecated": "v2 still accepts it with a warning, v3 does not",
        "no-op": "the SDK ignores the old name" if change.new else "it has no effect",
    }[change.state]
    return f"`{name}` of `{call.method}` {became} in sagemaker v2: {outcome}."


def _fix(call: Call, name: str, change: SdkChange) -> Fix | None:
    if change.new:
        edit = rename_keyword(call, name, change.new)
        return Fix(f"Write {change.new}=", (edit,), safe=True) if edit else None
    edit = remove_keyword(call, name)
    return Fix(f"Remove {name}=", (edit,), safe=change.state == "no-op") if edit else None
