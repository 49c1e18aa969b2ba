"""The job downloads an input that its script never reads: the download time is billed on every run.

In File mode the whole prefix is copied to the instance before the script starts. An input that is never read is
either left over, or the script reads something else by mistake. The rule requires the linked script with all modules
of the project that it imports, and a job whose command line cannot contain the path of the folder.

Bad:

    # file: launch.py
    from sagemaker.processing import ProcessingInput, ScriptProcessor

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    processor.run(
        code="process.py",
        inputs=[
            ProcessingInput(source="s3://b/rows", destination="/opt/ml/processing/rows"),
            ProcessingInput(source="s3://b/labels", destination="/opt/ml/processing/labels"),  # <-
        ],
    )
    # file: process.py
    import pandas as pd

    print(pd.read_csv("/opt/ml/processing/rows/all.csv").describe())

Good:

    # file: launch.py
    from sagemaker.processing import ProcessingInput, ScriptProcessor

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    processor.run(
        code="process.py",
        inputs=[ProcessingInput(source="s3://b/rows", destination="/opt/ml/processing/rows")],
    )
    # file: process.py
    import pandas as pd

    print(pd.read_csv("/opt/ml/processing/rows/all.csv").describe())

Quiet: the script reads everything that is mounted

    # file: launch.py
    from sagemaker.processing import ProcessingInput, ScriptProcessor

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    processor.run(
        code="process.py",
        inputs=[ProcessingInput(source="s3://b/labels", destination="/opt/ml/processing/labels")],
    )
    # file: process.py
    import os

    for folder in os.listdir("/opt/ml/processing"):
        print(folder)

Quiet: a module that comes with the script

    # file: launch.py
    from sagemaker.processing import ProcessingInput, ScriptProcessor

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    processor.run(
        code="process.py",
        inputs=[ProcessingInput(source="s3://b/lib", destination="/opt/ml/processing/lib")],
    )
    # file: process.py
    from common_code import run

    run()
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.processing_mounts import (
    OWN_MOUNTS,
    is_under,
    may_read_from,
)
from gpuproof.linter.knowledge.contract.script_contract import hidden_imports
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM125", "input-never-read", Severity.WARNING, when="link")

_TEXTS = re.compile(r"processingjobconfig|requirements|\.jar")


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    script = job.script
    if job.kind != "processing" or script is None or script is job.module or not job.inputs:
        return
    if job.runs_others or not job.container_arguments.is_absent or hidden_imports(script):
        return
    modules = local_modules(script)
    if script_uses(script, _TEXTS, "string"):
        return
    for mount in job.inputs:
        folder = mount.path.text if mount.path.is_known else None
        if folder is None or not folder.startswith("/") or any(is_under(folder, own) for own in OWN_MOUNTS):
            continue
        if may_read_from(modules, folder, job.environment):
            continue
        address = mount.address.text or mount.address.prefix or "its data"
        yield rule.hit(
            mount.span or job.span,
            f"`{job.script_title}` never reads `{folder}`: `{address}` is downloaded needlessly.",
            remedy="Read it in the script, or remove this input.",
        )
