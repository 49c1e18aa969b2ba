"""An endpoint is billed by the hour from its creation until it is deleted, whether or not it receives requests.

Most forgotten endpoints come from notebooks that deploy a model, try it and end there. The rule reports files that
both deploy and request predictions, and (as a note) scripts that only deploy to GPUs. Serverless endpoints cost
nothing when idle, asynchronous ones can scale to zero, and endpoints in Terraform and CloudFormation are meant to
stay.

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
    model = PyTorchModel(
        model_data="s3://b/model.tar.gz", role="r", entry_point="inference.py",
        framework_version="2.3", py_version="py311",
    )
    # %%
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
    # %%
    predictor.predict([1.0])
    # %%
    predictor.delete_endpoint()
    # file: inference.py
    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt", map_location="cuda")

Bad: what deletes it is never called, another endpoint is deleted, and scaling keeps one instance

    # file: demo.ipynb
    # %%
    import boto3
    from sagemaker.pytorch import PyTorchModel
    model = PyTorchModel(model_data="s3://b/model.tar.gz", role="r", entry_point="inference.py", framework_version="2.3")
    # %%
    predictor = model.deploy(1, "ml.g4dn.xlarge", endpoint_name="reviews-2")
    # %%
    def remove():
        predictor.delete_endpoint()
    # %%
    boto3.client("sagemaker").delete_endpoint(EndpointName="reviews-1")
    boto3.client("application-autoscaling").register_scalable_target(
        ServiceNamespace="sagemaker", ResourceId="endpoint/reviews-2/variant/AllTraffic",
        ScalableDimension="sagemaker:variant:DesiredInstanceCount", MinCapacity=1, MaxCapacity=4,
    )
    predictor.predict([1.0])

Quiet: a function that is called deletes it

    # file: demo.ipynb
    # %%
    from sagemaker.pytorch import PyTorchModel
    model = PyTorchModel(model_data="s3://b/model.tar.gz", role="r", entry_point="inference.py", framework_version="2.3")
    # %%
    predictor = model.deploy(1, "ml.g4dn.xlarge", endpoint_name="reviews-2")
    # %%
    def remove():
        predictor.delete_endpoint()
    # %%
    predictor.predict([1.0])
    remove()

Quiet: a serverless endpoint

    # file: demo.ipynb
    # %%
    from sagemaker.pytorch import PyTorchModel
    from sagemaker.serverless import ServerlessInferenceConfig
    model = PyTorchModel(model_data="s3://b/model.tar.gz", role="r", entry_point="inference.py", framework_version="2.3")
    predictor = model.deploy(serverless_inference_config=ServerlessInferenceConfig())
    predictor.predict([1.0])

Quiet: a production script that deploys to a CPU instance

    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(model_data="s3://b/model.tar.gz", role="r", entry_point="inference.py", framework_version="2.3")
    model.deploy(initial_instance_count=2, instance_type="ml.m5.xlarge", endpoint_name="recommendations")
"""

import ast
import re

from gpuproof.catalogue.prices import cost_text
from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, local_function, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, hourly_price, hourly_text, no_price
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("CO101", "endpoint-not-deleted", Severity.WARNING)

_FREE = ("local", "local_gpu")
_HOURS_PER_MONTH = 730
_DELETES = ("delete_endpoint", "delete_inference_component", "DeleteEndpoint")
_MAY_DELETE = re.compile(r"(^|[._])(cleanup|clean_up|teardown|tear_down)(_\w+)?$")
_SCALING = re.compile(r"delete-endpoint")
_COMMANDS = re.compile(r"^(?!\s*#).*\bdelete-endpoint\b|^\s*%store\b")
"""Lines of a notebook for the shell or IPython; other notebooks read what `%store` stores."""


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
    if name is None and not _is_in_notebook(job, module):
        return
    if name in _FREE or job.instance_type.is_absent or _is_deleted(job, module) or _may_delete(module):
        return
    severity = Severity.WARNING
    if not module.unit.is_notebook and not calls_named(
        module, "predict", "invoke_endpoint", "invoke_endpoint_async"
    ):
        if not gpus_per_host(project, job) or module.function_of(job.call.node) is not None:
            return
        severity = Severity.NOTE
    count = int(job.instance_count.number or 1)
    hosts = max(1, count)
    price = hourly_price(project, name, "endpoint") if name else None
    cost = no_price(project)
    if price is not None:
        cost = f" ({hourly_text(price, hosts)}, {cost_text(price, hosts * _HOURS_PER_MONTH, 0)} a month)"
    where = f" on `{name}`{cost}" if name else ""
    yield rule.hit(
        job.where(job.instance_type),
        f"The endpoint{where} is never deleted in this file.",
        remedy="Call predictor.delete_endpoint() when done; in a script, in a finally block.",
        severity=severity if job.instance_type.is_known else Severity.NOTE,
    )


def _is_in_notebook(job: JobDefinition, module: Module) -> bool:
    """Whether a cell of a notebook deploys a model itself, on whatever instance: a helper's caller may delete it."""
    is_cell = module.unit.kind == "notebook" and job.call is not None
    return (
        is_cell
        and job.source != "boto3"
        and job.call is not None
        and module.function_of(job.call.node) is None
    )


def _is_created(job: JobDefinition, module: Module) -> bool:
    """Whether this file creates the endpoint: with `deploy`, or with a configuration passed to `create_endpoint`."""
    if job.source == "boto3":
        return bool(calls_named(module, "create_endpoint"))
    return (
        job.source in ("sagemaker-v2", "sagemaker-v3")
        and job.call is not None
        and job.call.method == "deploy"
    )


def _is_deleted(job: JobDefinition, module: Module) -> bool:
    """Whether a call may delete the endpoint of this job: not one that never runs, or certainly deletes another endpoint."""
    names = _names(job, module)
    for call in calls_named(module, *_DELETES):
        function = module.function_of(call.node)
        if (
            function is not None
            and not module.tree.uses_of(function.name)
            and not _is_method(module, function)
        ):
            continue
        deleted = call.argument("EndpointName").text
        if deleted is not None and names and deleted not in names:
            continue
        predictor = origin_call(module, call.receiver)
        if (
            job.call is None
            or predictor is None
            or predictor.method != "deploy"
            or predictor.node is job.call.node
        ):
            return True
    return False


def _scales_to_zero(call: Call) -> bool:
    least = call.argument("MinCapacity")
    return least.number is None or least.number == 0


def _names(job: JobDefinition, module: Module) -> set[str]:
    """The names of this job's endpoint; empty if one of them is unknown."""
    given = (
        [call.argument("EndpointName") for call in calls_named(module, "create_endpoint")]
        if job.source == "boto3"
        else [job.argument("endpoint_name")]
    )
    return {value.text or "" for value in given} if all(value.text for value in given) else set()


def _is_method(module: Module, function: FunctionNode) -> bool:
    return module.enclosing(function, ast.ClassDef) is not None or bool(function.decorator_list)


def _may_delete(module: Module) -> bool:
    """Whether something else may delete it: a shell command, a helper of another file, another notebook, or scaling to zero."""
    return (
        any(
            _MAY_DELETE.search(call.name or call.method) and local_function(call) is None
            for call in all_calls(module)
        )
        or any(_scales_to_zero(call) for call in calls_named(module, "register_scalable_target"))
        or uses(module, _SCALING, "string")
        or any(_COMMANDS.search(line) for line in module.unit.magic_lines)
    )
