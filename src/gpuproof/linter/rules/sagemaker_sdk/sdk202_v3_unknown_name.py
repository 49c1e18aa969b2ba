"""Version 3 of the SDK has no such name or field, and its classes reject unknown fields.

Fields are validated by pydantic without extras: `Compute(use_spot_instances=True)` is a ValidationError. Do not rely
on the migration guide of the SDK: it names fields and modules that do not exist in 3.27.0.

Bad:

    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    ModelTrainer(
        training_image="image:1",
        compute=Compute(
            instance_type="ml.g5.xlarge",
            use_spot_instances=True,  # <-
        ),
        source_code=SourceCode(entry_point="train.py"),  # <-
    )

Fixed:

    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    ModelTrainer(
        training_image="image:1",
        compute=Compute(
            instance_type="ml.g5.xlarge",
            enable_managed_spot_training=True,
        ),
        source_code=SourceCode(entry_script="train.py"),
    )

Bad: modules and names that do not exist

    from sagemaker.train import Mode  # <-
    from sagemaker.train.distributed import Distributed  # <-
    from sagemaker.mlops.processing import Processor  # <-

Good:

    # file: launch.py
    from sagemaker.core.processing import Processor
    from sagemaker.serve import InferenceSpec, ModelBuilder
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import CheckpointConfig, Compute, SourceCode, StoppingCondition
    from sagemaker.train.distributed import Torchrun

    ModelTrainer(
        training_image="image:1",
        compute=Compute(instance_type="ml.g5.xlarge", instance_count=1, enable_managed_spot_training=True),
        stopping_condition=StoppingCondition(max_runtime_in_seconds=3600, max_wait_time_in_seconds=7200),
        checkpoint_config=CheckpointConfig(s3_uri="s3://bucket/checkpoints"),
        source_code=SourceCode(source_dir="src", entry_script="train.py"),
        distributed=Torchrun(process_count_per_node=1),
    )
    # file: src/train.py
    from pathlib import Path

    last = Path("/opt/ml/checkpoints/last.txt")
    print("resume from", last.read_text() if last.exists() else "the beginning")
    last.write_bytes(b"1")

Quiet: private names, and sagemaker.serve, which v2 has too

    from sagemaker.core._private import anything
    from sagemaker.serve import SchemaBuilder
"""

import difflib
from functools import cache

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.sdk import Signature, v2, v3
from gpuproof.linter.sdk.calls import V3_FOLDERS, keyword_span, rename_keyword, sdk_major, sdk_path
from gpuproof.linter.sdk.names import used_names
from gpuproof.linter.sdk.tables import FOLDER
from gpuproof.linter.source.edit import Fix
from gpuproof.util.csv_table import read_rows

rule = Rule("SDK202", "v3-unknown-name", Severity.ERROR, needs=("sagemaker",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("sagemaker") or sdk_major(module, project) != 3:
        return
    for name in used_names(module):
        if name.guarded or not _is_of_v3(name.path) or v3().has(name.path) is not False:
            continue
        yield rule.hit(
            module.span(name.node),
            f"`{name.path}` does not exist in sagemaker {v3().version}.",
            remedy=_import_hint(name.path),
        )
    for call in all_calls(module):
        path = sdk_path(call)
        signature = v3().signature(path) if path else None
        if signature is not None and signature.unknown == "error":
            yield from _fields(call, signature)


def _fields(call: Call, signature: Signature) -> Hits:
    for keyword in call.node.keywords:
        word = keyword.arg
        if word is None or signature.accepts(word):
            continue
        field = _words().get((signature.name, word), "")
        if field not in signature.names:
            field = next(iter(difflib.get_close_matches(word, signature.names, 1, 0.8)), "")
        edit = rename_keyword(call, word, field) if field else None
        certain = (signature.name, word) in _words()
        yield rule.hit(
            keyword_span(call, keyword),
            f"`{call.method}` of sagemaker v3 has no field `{word}`: the call is rejected.",
            remedy=f"Write {field}=."
            if field
            else f"Its fields: {', '.join(sorted(signature.names)[:12])}{', …' if len(signature.names) > 12 else '.'}",
            evidence=(f"{signature.path} of sagemaker {v3().version}",),
            fix=Fix(f"Write {field}=", (edit,), safe=certain) if edit else None,
        )


def _is_of_v3(path: str) -> bool:
    """Whether the name can only be one of v3: in its own packages, or in `serve` and missing from v2."""
    if path.startswith(tuple(folder + "." for folder in V3_FOLDERS)):
        return True
    return path.startswith("sagemaker.serve.") and v2().has(path) is False


def _import_hint(path: str) -> str | None:
    """The import of the same name in v3, if any."""
    name = path.rpartition(".")[2]
    found = sorted(
        (module for module in v3().modules if v3().names(module) and v3().has(f"{module}.{name}")),
        key=lambda module: (module.count("."), module),
    )
    return f"`from {found[0]} import {name}`." if found else None


@cache
def _words() -> dict[tuple[str, str], str]:
    """Fields of v3 by class and commonly used wrong name."""
    return {(row["class"], row["word"]): row["field"] for row in read_rows(FOLDER / "v3_words.csv")}
