"""An endpoint is billed by the hour from the moment it is up until somebody deletes it, whether anybody calls it or not.

Notebooks that deploy a model, try it and end there are where forgotten endpoints come from. The rule speaks where one
file deploys and asks for predictions, and about GPU endpoints (as a note) in scripts that only deploy. Serverless
endpoints cost nothing when idle, asynchronous ones can scale to zero, and what Terraform and CloudFormation describe is
meant to stay.

Bad:

    # file: demo.ipynb
    # %%
    from sagemaker.pytorch import PyTorchModel
    model = PyTorchModel(model_data="s3://b/model.tar.gz", role="r", entry_point="inference.py", framework_version="2.3")
    # %%
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
    # %%
    predictor.predict([1.0])

Good:

    # file: demo.ipynb
    # %%
    from sagemaker.pytorch import PyTorchModel
    model = PyTorchModel(model_data="s3://b/model.tar.gz", role="r", entry_point="inference.py", framework_version="2.3")
    # %%
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
    # %%
    predictor.predict([1.0])
    # %%
    predictor.delete_endpoint()

Quiet: a serverless endpoint

    # file: demo.ipynb
    # %%
    from sagemaker.pytorch import PyTorchModel
    from sagemaker.serverless import ServerlessInferenceConfig
    model = PyTorchModel(model_data="s3://b/model.tar.gz", role="r", entry_point="inference.py", framework_version="2.3")
    predictor = model.deploy(serverless_inference_config=ServerlessInferenceConfig())
    predictor.predict([1.0])

Quiet: a script for production that deploys to a CPU

    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(model_data="s3://b/model.tar.gz", role="r", entry_point="inference.py", framework_version="2.3")
    model.deploy(initial_instance_count=2, instance_type="ml.m5.xlarge", endpoint_name="recommendations")
"""

from gpuproof.check.analysis.module import Module
from gpuproof.check.jobs.definition import JobDefinition
from gpuproof.check.knowledge.torch import is_test
from gpuproof.check.project import Project
from gpuproof.check.rule import Hits, Rule
from gpuproof.findings import Severity

rule = Rule("CO101", "endpoint-not-deleted", Severity.WARNING)

_HOURS_A_MONTH = 730
_DELETES = ("delete_endpoint", "delete_inference_component", "DeleteEndpoint")
_MAY_DELETE = (
    "delete-endpoint",
    "%store",
    "register_scalable_target",
    "application-autoscaling",
    "cleanup",
    "clean_up",
    "teardown",
)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    module = job.module
    if (
        job.kind != "endpoint"
        or module is None
        or job.call is None
        or is_test(module)
        or not _is_created(job, module)
    ):
        return
    name = job.instance_type.text
    price = project.hourly_price(name, "endpoint") if name else None
    if name is None or price is None or module.calls_of(*_DELETES) or _may_delete(module):
        return
    severity = Severity.WARNING
    if not module.unit.is_notebook and not module.calls_of(
        "predict", "invoke_endpoint", "invoke_endpoint_async"
    ):
        if not project.gpus(job) or module.function_of(job.call.node) is not None:
            return
        severity = Severity.NOTE
    count = int(job.instance_count.number or 1)
    hour = price * max(1, count)
    yield rule.hit(
        job.where(job.instance_type),
        f"The endpoint on `{name}` (${hour:.2f} an hour, ${hour * _HOURS_A_MONTH:,.0f} a month) is never deleted here.",
        remedy="Call predictor.delete_endpoint() when you are done; in a script in a finally block.",
        severity=severity if job.instance_type.is_known else Severity.NOTE,
    )


def _is_created(job: JobDefinition, module: Module) -> bool:
    """Whether the endpoint comes up in this file: by `deploy`, or by a configuration that `create_endpoint` takes."""
    if job.source == "boto3":
        return bool(module.calls_of("create_endpoint"))
    return (
        job.source in ("sagemaker-v2", "sagemaker-v3")
        and job.call is not None
        and job.call.method == "deploy"
    )


def _may_delete(module: Module) -> bool:
    """Whether something else may delete it: the shell, a helper, another notebook, or scaling to zero."""
    text = module.unit.source + module.unit.raw
    return any(word in text for word in _MAY_DELETE)
