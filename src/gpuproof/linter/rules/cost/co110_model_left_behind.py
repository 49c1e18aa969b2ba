"""The endpoint is deleted, and its model and configuration stay: they cost nothing, but count against quotas of the account.

A name that exists already makes the next `create_model` or `create_endpoint_config` fail. `delete_endpoint()` of SDK v2 also
deletes the configuration; the model needs `predictor.delete_model()`, before the endpoint is gone.

Bad:

    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
    predictor.predict([1.0])
    predictor.delete_endpoint()  # <-

Good:

    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
    predictor.predict([1.0])
    predictor.delete_model()
    predictor.delete_endpoint()

Quiet: the model is deleted by its name

    import boto3

    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge")
    predictor.delete_endpoint()
    boto3.client("sagemaker").delete_model(ModelName=model.name)
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("CO110", "model-left-behind", Severity.NOTE, when="strict", needs=("delete_endpoint",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if calls_named(module, "delete_model"):
        return
    for call in calls_named(module, "delete_endpoint"):
        made = origin_call(module, call.receiver)
        if made is not None and made.method == "deploy":
            yield rule.hit(
                call.span,
                "The endpoint is deleted, and its model is kept.",
                remedy=f"Call {module.text(call.receiver) if call.receiver else 'predictor'}.delete_model() before it.",
            )
