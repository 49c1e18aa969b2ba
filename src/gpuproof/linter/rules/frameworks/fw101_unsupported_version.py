"""SageMaker's SDK has no image for this combination of framework version and Python version, and raises ValueError.

Every framework version has images for one or two Python versions. The SDK looks the combination up in a table before
it calls AWS. The rule uses the table of SDK 2.257.7; a version newer than the newest one there is only a warning,
because a later SDK may have it. Images of Hugging Face have one or two versions of PyTorch or TensorFlow for each
version of transformers.

Bad: the image is for another Python

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.11", py_version="py310",  # <-
    )

Bad: no such version

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="1.14", py_version="py310",  # <-
    )

Good:

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.11", py_version="py39",
    )

Bad: transformers and PyTorch are not in one image

    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        transformers_version="4.49.0", pytorch_version="2.1.0", py_version="py311",  # <-
    )

Bad: the model of an endpoint

    from sagemaker.huggingface import HuggingFaceModel

    model = HuggingFaceModel(
        model_data="s3://bucket/model.tar.gz", role="role",
        transformers_version="4.37", pytorch_version="2.3", py_version="py310",  # <-
    )
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")

Good: this pair is

    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        transformers_version="4.49", pytorch_version="2.5", py_version="py311",
    )

Quiet: a custom image

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        image_uri="123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1", framework_version="9.9", py_version="py310",
    )

Quiet: the version is defined elsewhere

    import sys
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", framework_version=sys.argv[1], py_version="py310")

Quiet: an image of SageMaker's model parallelism

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", instance_count=2, instance_type="ml.p5.48xlarge",
        framework_version="2.4.1", py_version="py311",
        distribution={"torch_distributed": {"enabled": True}, "smdistributed": {"modelparallel": {"enabled": True}}},
    )
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.images import SdkVersion, huggingface_versions, sdk_versions
from gpuproof.linter.knowledge.aws.instance_references import replace_text
from gpuproof.linter.knowledge.aws.instances import find_instance
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule, lowered
from gpuproof.linter.source.edit import Fix
from gpuproof.util.versions import version_key

rule = Rule("FW101", "unsupported-version", Severity.ERROR)

_NAMES = {"pytorch": "PyTorch", "tensorflow": "TensorFlow"}
_NO_GPU = re.compile(r"^(ml\.)?(inf|trn)\d")


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if job.framework == "huggingface":
        yield from _huggingface(job, project)
        return
    if job.source != "sagemaker-v2" or job.framework not in _NAMES or not job.image.is_unset:
        return
    version = job.framework_version
    # The SDK takes the images of SageMaker's model parallelism from a repository of its own.
    if job.distribution.at("smdistributed", "modelparallel", "enabled").flag is not None:
        return
    scope = _scope(job)
    if scope is None or not version.is_sure or len(version_key(version.text or "")) < 2:
        return
    instance = find_instance(project, job.instance_type)
    if (instance is not None and instance.arch != "x86_64") or not job.argument("accelerator_type").is_unset:
        return
    versions = sdk_versions(job.framework, scope)
    row = next((release for release in versions if version.text in (release.version, release.alias)), None)
    if row is None:
        yield _no_version(job, versions, scope)
        return
    python = job.py_version
    if python.is_sure and python.text and row.py_versions and python.text not in row.py_versions:
        right = row.py_versions[-1]
        edits = replace_text(python, python.text, right)
        yield rule.hit(
            job.where(python, version),
            f"There is no {_NAMES[job.framework]} {version.text} {scope} image for {python.text}: it is built for "
            f"{' or '.join(row.py_versions)}, and the SDK raises ValueError.",
            remedy=f'Write py_version="{right}".',
            severity=rule.severity if version.is_known and python.is_known else lowered(rule.severity),
            fix=Fix(f"Write {right}", edits) if edits else None,
        )


def _scope(job: JobDefinition) -> str | None:
    """The scope of a job's image; None if another job has the same image.

    An estimator's endpoint repeats the version of the estimator; processors use training images of another class.
    """
    if job.model is not None and job.model.kind == "training":
        return None
    return {"training": "training", "endpoint": "inference", "transform": "inference"}.get(job.kind)


def _huggingface(job: JobDefinition, project: Project) -> Hits:
    """Versions of transformers and its framework that no image has together."""
    scope, transformers = _scope(job), job.framework_version
    if job.source != "sagemaker-v2" or scope is None or not job.image.is_unset or not transformers.is_sure:
        return
    # Images for the compiler and for other chips are in tables of their own.
    instance = find_instance(project, job.instance_type)
    if instance is None or instance.arch != "x86_64" or _NO_GPU.match(instance.name):
        return
    # The versions are those of the model that an endpoint or a transform job runs.
    made = job.model or job
    if not made.argument("compiler_config").is_unset or not made.argument("image_uri").is_unset:
        return
    named = {name: made.argument(f"{name}_version") for name in _NAMES}
    given = {name: value for name, value in named.items() if not value.is_unset}
    if len(given) != 1:
        return
    framework, version = next(iter(given.items()))
    if not version.is_sure or not version.text or not transformers.text:
        return
    pairs = huggingface_versions(framework, scope)
    newest = max(version_key(pair.transformers[0]) for pair in pairs)
    if version_key(transformers.text) > newest:
        return
    same = [pair for pair in pairs if transformers.text in pair.transformers]
    if any(version.text in pair.framework for pair in same):
        return
    title = _NAMES[framework]
    if same:
        known = " or ".join(pair.framework[0] for pair in same)
        remedy = (
            f'Write {framework}_version="{same[-1].framework[0]}", py_version="{same[-1].py_versions[-1]}".'
        )
        message = (
            f"The {scope} image with transformers {transformers.text} has {title} {known}, not {version.text}"
        )
    else:
        listed = ", ".join(dict.fromkeys(pair.transformers[0] for pair in pairs[-4:]))
        remedy = f"The newest versions are {listed}."
        message = f"There is no {scope} image with transformers {transformers.text} and {title}"
    yield rule.hit(
        job.where(version if same else transformers, transformers),
        f"{message}: SageMaker's SDK (2.257.7) raises ValueError.",
        remedy=remedy,
        severity=rule.severity if version.is_known and transformers.is_known else lowered(rule.severity),
    )


def _no_version(job: JobDefinition, versions: tuple[SdkVersion, ...], scope: str) -> Hit:
    text = str(job.framework_version.text)
    newest = max(version_key(version.version) for version in versions)
    is_newer = version_key(text) > newest
    target = version_key(text)[:2]
    near = sorted(versions, key=lambda version: _distance(version_key(version.version)[:2], target))[:4]
    listed = ", ".join(
        release.version for release in sorted(near, key=lambda release: version_key(release.version))
    )
    sure = job.framework_version.is_known and not is_newer
    name = _NAMES[str(job.framework)]
    return rule.hit(
        job.where(job.framework_version),
        f"SageMaker's SDK (2.257.7) has no {name} {text} {scope} image and raises ValueError.",
        remedy=f"The closest versions are {listed}.",
        severity=rule.severity if sure else lowered(rule.severity),
    )


def _distance(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return abs((one[0] - other[0]) * 100 + (one[-1] - other[-1]))
