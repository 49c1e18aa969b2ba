"""The processing script uses a folder that the job does not mount.

A `ProcessingInput` is mounted exactly at its `destination`. Its `input_name` is only a name and does not create a
folder. Files written outside the `source` of every output are lost when the job ends. The rule requires a job with
known mounts. A folder inside a mount may be part of the data and is not reported, unless it has the name of the
input.

Bad:

    # file: launch.py
    from sagemaker.processing import ProcessingInput, ScriptProcessor

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    inputs = [ProcessingInput(source="s3://b/raw", destination="/opt/ml/processing/input", input_name="raw_data")]
    processor.run(code="process.py", inputs=inputs, outputs=[])
    # file: process.py
    import os

    folder = "/opt/ml/processing/input/raw_data"  # <-
    print(os.listdir(folder))

Bad: not mounted

    # file: launch.py
    from sagemaker.processing import ProcessingInput, ScriptProcessor

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    inputs = [ProcessingInput(source="s3://b/raw", destination="/opt/ml/processing/input")]
    processor.run(code="process.py", inputs=inputs)
    # file: process.py
    import os, pandas as pd

    frame = pd.read_csv(os.path.join("/opt/ml/processing/data", "rows.csv"))  # <-

Bad: below a folder with a name

    # file: launch.py
    from sagemaker.processing import ProcessingInput, ScriptProcessor

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    inputs = [ProcessingInput(source="s3://b/raw", destination="/opt/ml/processing/input")]
    processor.run(code="process.py", inputs=inputs)
    # file: process.py
    from pathlib import Path

    BASE = Path("/opt/ml/processing")
    files = sorted((BASE / "data" / "2024").glob("*.csv"))  # <-
    more = sorted((BASE / "input" / "2024").glob("*.csv"))
    (BASE / "tmp").mkdir(exist_ok=True)
    (BASE / "tmp" / "names.txt").write_text(str(files))

Good:

    # file: launch.py
    from sagemaker.processing import ProcessingInput, ScriptProcessor

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    inputs = [ProcessingInput(source="s3://b/raw", destination="/opt/ml/processing/input", input_name="raw_data")]
    processor.run(code="process.py", inputs=inputs)
    # file: process.py
    import os

    print(os.listdir("/opt/ml/processing/input"))

Quiet: a folder of the data, and one that the processor mounts

    # file: launch.py
    from sagemaker.processing import ProcessingInput, ScriptProcessor

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    inputs = [ProcessingInput(source="s3://b/raw", destination="/opt/ml/processing/input", input_name="raw_data")]
    processor.run(code="process.py", inputs=inputs)
    # file: process.py
    import os

    print(os.listdir("/opt/ml/processing/input/2024"), os.listdir("/opt/ml/processing/input/code"))
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.container_env import PROCESSING_DIR
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.processing_mounts import (
    OWN_MOUNTS,
    created_folders,
    is_under,
    mounted_folders,
)
from gpuproof.linter.knowledge.contract.script_contract import path_literals
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("SM113", "processing-path-mismatch", Severity.ERROR, when="link", needs=(PROCESSING_DIR,))


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [job for job in project.jobs_running(module) if job.kind == "processing" and job.script is module]
    if len(jobs) != 1 or jobs[0].module is module:
        return
    job = jobs[0]
    mounted = mounted_folders(job)
    if mounted is None:
        return
    seen: set[str] = set()
    made = created_folders(module)
    for node, value in path_literals(module, PROCESSING_DIR + "/"):
        path = str(value.text).rstrip("/")
        named = _named_like_input(path, job)
        if path in seen or any(is_under(path, own) for own in OWN_MOUNTS) or _is_default(module, node):
            continue
        # A folder that the script creates itself exists.
        there = any(is_under(path, mount) or is_under(mount, path) for mount in mounted)
        if named is None and (there or any(is_under(path, mount) for mount in made)):
            continue
        seen.add(path)
        if named is not None:
            what = f"{job.title} mounts input `{named[0]}` directly at `{named[1]}`; its name does not add a folder"
        elif mounted:
            what = f"{job.title} only mounts " + ", ".join(
                f"`{fromkey}`" for fromkey in dict.fromkeys(mounted)
            )
        else:
            what = f"{job.title} mounts nothing"
        literal = isinstance(node, ast.Constant) and named is not None
        edits = (replace_node(module, node, f'"{named[1]}"'),) if literal and named is not None else ()
        yield rule.hit(
            module.span(node),
            f"`{path}` does not exist: {what}.",
            remedy=f'Use "{named[1]}".' if named else "Use one of the job's folders, or mount this folder.",
            fix=Fix(f"Use {named[1]}", edits, safe=True) if named and edits else None,
        )


def _named_like_input(path: str, job: JobDefinition) -> tuple[str, str] | None:
    """The input whose name a path uses as a folder, and the folder where it is mounted."""
    mounted = {str(output.path.text).rstrip("/") for output in (*(job.inputs or ()), *(job.outputs or ()))}
    for input_ in job.inputs or ():
        name, folder = input_.name.text, str(input_.path.text).rstrip("/")
        inside = f"{folder}/{name}"
        if name and is_under(path, inside) and not any(is_under(path, other) for other in mounted - {folder}):
            address = (input_.address.text or input_.address.prefix).rstrip("/")
            return (name, folder) if address.startswith("s3://") else None
    return None


def _is_default(module: Module, node: ast.expr) -> bool:
    """Whether the path is only a default that arguments or the environment may override."""
    parent = module.parent(node)
    return isinstance(parent, (ast.keyword, ast.arg, ast.arguments, ast.BoolOp)) or (
        isinstance(parent, ast.Call) and module.qualified(parent.func) in ("os.environ.get", "os.getenv")
    )
