"""What a job runs cannot be followed to its script, or a part of it cannot: the script is not checked with the job.

Rules about idle GPUs, arguments, channels and saved models need the job and its script. The link is followed through
commands, launchers (torchrun, accelerate, deepspeed, mpirun, srun), shell scripts, Makefiles and Dockerfiles, from jobs of
the SDK, of boto3, of templates and of state machines, from containers with GPUs (Batch, ECS) and from user data of
instances. It ends where
a name is only known when the command runs, where a file is not on this machine, and where a module of an installed
package is started. This note says where, once for each job.

Bad:

    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    trainer = ModelTrainer(
        training_image="image",
        source_code=SourceCode(source_dir=".", command="python $SCRIPT --epochs 3"),  # <-
        compute=Compute(instance_type="ml.g5.xlarge", instance_count=1),
    )

Good:

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    trainer = ModelTrainer(
        training_image="image",
        source_code=SourceCode(source_dir="src", command="cd models && python train.py --epochs 3"),
        compute=Compute(instance_type="ml.g5.xlarge", instance_count=1),
    )
    # file: src/models/train.py
    print("training")

Quiet: an algorithm of SageMaker has no script

    import sagemaker
    from sagemaker.estimator import Estimator

    image = sagemaker.image_uris.retrieve("xgboost", "us-east-1", "1.7-1")
    Estimator(image_uri=image, role="role", instance_count=1, instance_type="ml.m5.xlarge")
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import CONTAINERS, JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.rules.sagemaker_contract.sm123_entry_point_not_found import check as missing_entry_point

rule = Rule("SM126", "script-not-linked", Severity.NOTE)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    end = job.link_end
    if end is None or job.kind not in ("training", "processing") or job.span.unit.kind == "markdown":
        return
    if job.script is None and (_is_reported(job) or any(missing_entry_point(job, project))):
        return
    if job.source in ("container", *CONTAINERS) and not gpus_per_host(project, job):
        return
    is_file = job.source in ("command", "slurm")
    span = job.span.unit.span(end.line) if is_file else job.where(job.command, job.entry_point)
    part = "A part of what" if job.script is not None else "What"
    yield rule.hit(
        span,
        f"{part} {job.title} runs is not checked: {end.reason}.",
        remedy=end.remedy or None,
    )


def _is_reported(job: JobDefinition) -> bool:
    """Whether the reader of gpuproof.yaml reports the entry point: E901."""
    return job.source == "gpuproof" and job.entry_point.is_known and job.script_found is not True
