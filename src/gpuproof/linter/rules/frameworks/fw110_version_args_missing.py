"""Without an image, the SDK requires the framework version and the Python version, and raises ValueError without
them.

The requirements of each class are read from SDK 2.257.7. The call fails on the machine that starts the job, before
anything is billed, but only when that line is reached.

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(  # <-
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge", framework_version="2.3",
    )

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge", framework_version="2.3",
        py_version="py311",
    )

Quiet: an image

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        image_uri="123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1",
    )

Quiet: **options may contain them

    import json
    from sagemaker.pytorch import PyTorch

    settings = json.load(open("settings.json"))
    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge", **settings)

Quiet: SDK 1 had defaults

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", train_instance_count=1, train_instance_type="ml.g5.xlarge")
"""

from functools import cache
from pathlib import Path

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.version_pins import pinned_versions
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.util.csv_table import read_rows

rule = Rule("FW110", "version-args-missing", Severity.ERROR, needs=("sagemaker",))

_ARGUMENTS = frozenset(
    {"framework_version", "py_version", "transformers_version", "pytorch_version", "tensorflow_version"}
)


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("sagemaker") or project.target.sagemaker_sdk == 3:
        return
    pinned = pinned_versions(module.unit).get("sagemaker", "")
    if pinned.startswith(("==1", "<2", "~=1")):
        return
    for call in all_calls(module):
        needs = _needs().get(_class(call))
        if needs is None or call.is_open or any(key.startswith("train_") for key in call.keywords):
            continue
        if len(call.node.args) > 1 or any(
            not call.argument(key).is_unset for key in ("image_name", "image_uri", "image")
        ):
            continue
        missing = [
            " or ".join(names) for names in needs if all(call.argument(name).is_unset for name in names)
        ]
        if missing:
            yield rule.hit(
                call.span,
                f"{call.method}(...) requires {' and '.join(missing)}, or image_uri: the SDK raises ValueError.",
                remedy=f"Pass {', '.join(name.partition(' or ')[0] + '=...' for name in missing)}.",
            )


def _class(call: Call) -> tuple[str, str]:
    """Package and class: (`pytorch`, `PyTorch`) for `sagemaker.pytorch.estimator.PyTorch`."""
    parts = (call.name or "").split(".")
    return (parts[1], parts[-1]) if len(parts) > 2 and parts[0] == "sagemaker" else ("", "")


@cache
def _needs() -> dict[tuple[str, str], list[tuple[str, ...]]]:
    path = Path(__file__).parents[2] / "data" / "needs.csv"
    found: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for row in read_rows(path):
        parts = row["call"].split(".")
        if row["needs"] in _ARGUMENTS and len(parts) == 4:
            names = (row["needs"], row["or"]) if row["or"] else (row["needs"],)
            found.setdefault((parts[1], parts[-1]), []).append(names)
    return found
