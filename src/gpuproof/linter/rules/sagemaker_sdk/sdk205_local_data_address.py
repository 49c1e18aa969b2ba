"""A job gets a local path where it needs an address in S3.

`fit({"train": "data/train"})` raises `ValueError: URI input data/train must be a valid S3 or FILE URI`; a training job
reads from S3, and only local mode reads `file://` addresses. Upload the folder first.

Bad:

    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
    )
    estimator.fit({"train": "data/train", "val": "s3://bucket/val"})  # <-

Bad: a file address outside of local mode

    from sagemaker.inputs import TrainingInput
    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
    )
    estimator.fit("file:///home/me/data")  # <-

Good:

    import sagemaker
    from sagemaker.pytorch import PyTorch

    session = sagemaker.Session()
    estimator = PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
    )
    estimator.fit({"train": session.upload_data("data/train", key_prefix="train")})

Quiet: local mode, and a variable

    from settings import DATA
    from sagemaker.pytorch import PyTorch

    local = PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="local_gpu",
    )
    local.fit({"train": "file://data/train"})
    remote = PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
    )
    remote.fit({"train": DATA})
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SDK205", "local-data-address", Severity.ERROR)

_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://|^arn:|^https?:", re.IGNORECASE)


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    if job.source != "sagemaker-v2" or job.kind != "training":
        return
    instance = job.instance_type.text
    if not job.instance_type.is_known or instance is None or not instance.startswith("ml."):
        return
    for name, value in job.channels.items():
        text = value.text if value.is_known else None
        if not text or value.span is None or (_SCHEME.search(text) and not text.startswith("file://")):
            continue
        if "$" in text or "{" in text:
            continue
        yield rule.hit(
            value.span,
            f"The channel `{name}` is the local path `{text}`: fit() raises ValueError, because the job on `{instance}` reads "
            "from S3.",
            remedy=f'Upload it: sagemaker.Session().upload_data("{text.removeprefix("file://")}").',
        )
