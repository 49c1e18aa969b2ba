"""`Model.deploy` returns None unless the model has a `predictor_cls`.

The generic `sagemaker.model.Model` does not know how to send requests. The endpoint is created, and billed, and the
next line raises `AttributeError: 'NoneType' object has no attribute 'predict'`; the endpoint stays.
Source: https://sagemaker.readthedocs.io/en/v2/api/inference/model.html, `deploy`, 2026-11-29.

Bad:

    from sagemaker.model import Model

    model = Model(image_uri="image", model_data="s3://bucket/model.tar.gz", role="role")
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    print(predictor.predict(b"[1, 2]"))  # <-
    predictor.delete_endpoint()

Good:

    from sagemaker.model import Model
    from sagemaker.predictor import Predictor

    model = Model(image_uri="image", model_data="s3://bucket/model.tar.gz", role="role", predictor_cls=Predictor)
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    print(predictor.predict(b"[1, 2]"))
    predictor.delete_endpoint()

Quiet: a predictor of its own

    from sagemaker.model import Model
    from sagemaker.predictor import Predictor

    model = Model(image_uri="image", model_data="s3://bucket/model.tar.gz", role="role")
    model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge", endpoint_name="served")
    predictor = Predictor("served")
    print(predictor.predict(b"[1, 2]"))
    predictor.delete_endpoint()

Quiet: a model of a framework

    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(
        model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py", framework_version="2.3",
        py_version="py311",
    )
    predictor = model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    print(predictor.predict([[1.0, 2.0]]))
    predictor.delete_endpoint()
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SDK206", "no-predictor", Severity.ERROR, needs=("sagemaker.model", "sagemaker.Model"))

_GENERIC = ("sagemaker.model.Model", "sagemaker.Model")


@rule.module
def check(module: Module, _: Project) -> Hits:
    for call in calls_named(module, "predict", "predict_async"):
        if not isinstance(call.receiver, ast.Name):
            continue
        deployed = origin_call(module, call.receiver)
        if deployed is None or deployed.method != "deploy" or deployed.receiver is None:
            continue
        model = origin_call(module, deployed.receiver)
        if model is None or model.name not in _GENERIC or not model.argument("predictor_cls", 3).is_unset:
            continue
        if not deployed.argument("inference_recommendation_id").is_unset or module.enclosing(
            call.node, ast.Try
        ):
            continue
        yield rule.hit(
            call.span,
            f"`{call.receiver.id}` is None: `deploy` of a generic `Model` without predictor_cls returns nothing, and the "
            "endpoint keeps running.",
            remedy="Pass predictor_cls=sagemaker.predictor.Predictor to Model(...).",
        )
        break
