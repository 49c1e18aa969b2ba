"""The job uploads a folder to which its script writes nothing: it ends as `Completed`, but the output is empty.

Often the line that saves is commented out, but a `print("Saved")` below it is not. The rule requires the linked
script and all modules of the project that it imports, and reports nothing if an unknown library, or a command line of
the job, may refer to the folder.

Bad:

    # file: launch.py
    from sagemaker.processing import ProcessingOutput, ScriptProcessor

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    processor.run(
        code="process.py",
        outputs=[
            ProcessingOutput(source="/opt/ml/processing/output", destination="s3://b/out")  # <-
        ],
    )
    # file: process.py
    import numpy as np
    import os

    result = np.ones(3)
    os.makedirs("/opt/ml/processing/output", exist_ok=True)
    # np.save("/opt/ml/processing/output/result.npy", result)
    print("Saved")

Bad: written to another folder

    # file: launch.py
    from sagemaker.processing import ProcessingOutput, ScriptProcessor

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    processor.run(
        code="process.py",
        outputs=[ProcessingOutput(source="/opt/ml/processing/vectors", destination="s3://b/out")],  # <-
        arguments=["--size", "256"],
    )
    # file: process.py
    import argparse
    import numpy as np
    from pathlib import Path

    ROOT = Path("/opt/ml/processing")
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=128)
    args = parser.parse_args()
    (ROOT / "embeddings").mkdir(exist_ok=True)
    np.save(ROOT / "embeddings" / "vectors.npy", np.ones(args.size))

Good:

    # file: launch.py
    from sagemaker.processing import ProcessingOutput, ScriptProcessor

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    processor.run(
        code="process.py", outputs=[ProcessingOutput(source="/opt/ml/processing/output", destination="s3://b/out")]
    )
    # file: process.py
    import numpy as np

    np.save("/opt/ml/processing/output/result.npy", np.ones(3))

Quiet: the folder is a command-line argument

    # file: launch.py
    from sagemaker.processing import ProcessingOutput, ScriptProcessor

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    processor.run(
        code="process.py",
        arguments=["--to", "/opt/ml/processing/results"],
        outputs=[ProcessingOutput(source="/opt/ml/processing/results", destination="s3://b/out")],
    )
    # file: process.py
    import sys
    import numpy as np

    np.save(sys.argv[2], np.ones(3))

Quiet: a library writes

    # file: launch.py
    from sagemaker.processing import ProcessingOutput, ScriptProcessor

    processor = ScriptProcessor(
        image_uri="image", command=["python3"], role="role", instance_count=1, instance_type="ml.m5.xlarge"
    )
    processor.run(
        code="process.py", outputs=[ProcessingOutput(source="/opt/ml/processing/output", destination="s3://b/out")]
    )
    # file: process.py
    from our_pipeline import evaluate

    evaluate("/opt/ml/processing/output")
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.processing_mounts import may_write, may_write_to
from gpuproof.linter.knowledge.contract.script_contract import hidden_imports
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

_CONFIG = re.compile(r"processingjobconfig")
"""The file with all paths of the job."""

rule = Rule("SM114", "output-never-written", Severity.WARNING, when="link")


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    script = job.script
    if job.kind != "processing" or script is None or script is job.module or not job.outputs:
        return
    words = _words(job)
    if job.runs_others or words is None or hidden_imports(script):
        return
    modules = local_modules(script)
    writes = any(may_write(module) for module in modules)
    if writes and script_uses(script, _CONFIG, "string"):
        return
    for output in job.outputs:
        folder = output.path.text if output.path.is_known else None
        if folder is None or not folder.startswith("/") or _may_name(words, folder):
            continue
        if writes and may_write_to(modules, folder, job.environment):
            continue
        yield rule.hit(
            output.span or job.span,
            f"`{job.script_title}` writes nothing to `{folder}`: the job succeeds, but this output is empty.",
            remedy=f'Save the result in the script, such as np.save("{folder}/result.npy", result), or drop the '
            "output.",
        )


def _words(job: JobDefinition) -> list[str] | None:
    """The command line of the script; None if part of it is unknown."""
    if job.container_arguments.is_absent:
        return []
    texts = [str(item.value) if item.is_known else None for item in job.container_arguments.items or ()]
    known = [text for text in texts if text is not None]
    return known if known and len(known) == len(texts) else None


def _may_name(words: list[str], folder: str) -> bool:
    """Whether a word of the command line may be a folder, or the last part of its path."""
    last = folder.rstrip("/").rpartition("/")[2]
    return any("/" in word or word.rpartition("=")[2] == last for word in words)
